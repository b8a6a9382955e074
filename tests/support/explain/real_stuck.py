"""Sets that cannot run on a real node, each for one reason, and what the first line of `jobset explain` names of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dev.hack.node_images import PYTHON
from tests.support.cluster.jobs import group, manifest

JSON = dict[str, Any]
FILL = "dd if=/dev/zero of=/data/x bs=1M count=50; sleep 3600"


@dataclass(frozen=True)
class Situation:
    """`body`: the JobSet. `names`: words that the cause in one line has."""

    body: JSON
    names: tuple[str, ...]


def _alone(name: str, container: JSON, *, again: bool = False, **pod: Any) -> JSON:
    """A JobSet of two pods. `again`: their containers start again in them."""
    main = {"name": "main", "image": PYTHON, "command": ["sleep", "3600"], **container}
    policy = {"restartPolicy": "OnFailure" if again else "Never", "terminationGracePeriodSeconds": 1}
    workers = group(
        pods_per_job=2, pod={**policy, "containers": [main], **pod}, job={"backoffLimit": 6 if again else 0}
    )
    return manifest(workers, name=name, failurePolicy={"maxRestarts": 1})


def _python(program: str) -> JSON:
    return {"command": ["python3", "-c", program]}


OOM = {**_python("len(bytearray(300 << 20))"), "resources": {"limits": {"memory": "64Mi"}}}
SITUATIONS = {
    "image-not-there": Situation(
        _alone("image-not-there", {"image": "registry.example.com/team/trainer:1.4"}),
        ("registry.example.com/team/trainer:1.4",),
    ),
    "image-misspelt": Situation(_alone("image-misspelt", {"image": "Python:3.13"}), ("Python:3.13",)),
    "crash-loop": Situation(_alone("crash-loop", _python("1 / 0"), again=True), ("exit code 1",)),
    "program-not-there": Situation(_alone("program-not-there", {"command": ["nosuchprogram"]}), ("nosuchprogram",)),
    "configmap-not-there": Situation(
        _alone(
            "configmap-not-there",
            {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "nope", "key": "a"}}}]},
        ),
        ('configmap "nope" not found',),
    ),
    "secret-not-there": Situation(
        _alone(
            "secret-not-there",
            {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
            volumes=[{"name": "data", "secret": {"secretName": "nope"}}],
        ),
        ('secret "nope" not found',),
    ),
    "init-fails": Situation(
        _alone(
            "init-fails",
            {},
            initContainers=[{"name": "prepare", "image": PYTHON, **_python('raise SystemExit("no dataset")')}],
        ),
        ("prepare",),
    ),
    "never-ready": Situation(
        _alone("never-ready", {"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 2}}),
        ("eadiness probe",),
    ),
    "never-started": Situation(
        _alone(
            "never-started",
            {"startupProbe": {"tcpSocket": {"port": 9999}, "periodSeconds": 2, "failureThreshold": 3}},
            again=True,
        ),
        ("tartup probe",),
    ),
    "out-of-memory": Situation(_alone("out-of-memory", OOM), ("OOMKilled",)),
    "out-of-memory-again": Situation(_alone("out-of-memory-again", OOM, again=True), ("OOMKilled",)),
    "root-not-allowed": Situation(
        _alone("root-not-allowed", {"securityContext": {"runAsNonRoot": True}}), ("runAsNonRoot",)
    ),
    "disk-limit": Situation(
        _alone(
            "disk-limit",
            {
                "command": ["sh", "-c", FILL.replace("/data", "/tmp")],
                "resources": {"limits": {"ephemeral-storage": "10Mi"}},
            },
        ),
        ("ephemeral",),
    ),
    "volume-limit": Situation(
        _alone(
            "volume-limit",
            {"command": ["sh", "-c", FILL], "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
            volumes=[{"name": "data", "emptyDir": {"sizeLimit": "10Mi"}}],
        ),
        ("data", "10Mi"),
    ),
    "node-too-small": Situation(
        _alone("node-too-small", {"resources": {"requests": {"cpu": "90"}}}, again=True, nodeName="real-0"),
        ("OutOfcpu", "requested: 90000"),
    ),
    "node-of-other-labels": Situation(
        _alone("node-of-other-labels", {}, again=True, nodeName="real-0", nodeSelector={"disk": "ssd"}),
        ("NodeAffinity", "didn't match Pod's node affinity/selector"),
    ),
    "node-cannot-preempt": Situation(
        _alone(
            "node-cannot-preempt",
            {"resources": {"requests": {"cpu": "90"}}},
            again=True,
            nodeName="real-0",
            priorityClassName="system-node-critical",
        ),
        ("UnexpectedAdmissionError", "preemption"),
    ),
    "sysctl-not-allowed": Situation(
        _alone(
            "sysctl-not-allowed",
            {},
            again=True,
            securityContext={"sysctls": [{"name": "net.core.somaxconn", "value": "1024"}]},
        ),
        ("SysctlForbidden", "net.core.somaxconn"),
    ),
    "time-of-pod-over": Situation(
        _alone("time-of-pod-over", {}, again=True, activeDeadlineSeconds=2), ("DeadlineExceeded",)
    ),
}
QUICK = ("image-not-there", "configmap-not-there", "out-of-memory")
"""Those of `make test`."""
