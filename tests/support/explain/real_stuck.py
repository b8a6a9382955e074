"""Sets that cannot run on a real node, each for one reason, and what the first line of `jobset explain` names of it."""

from dataclasses import dataclass
from typing import Any

from dev.hack.node_images import AGENT, PYTHON
from tests.support.cluster.jobs import group, manifest

JSON = dict[str, Any]
ROOT_CA = "kube-root-ca.crt"
"""A ConfigMap that each namespace has."""
DATA = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
ABORTS = "python3 -c 'import os; os.abort()'; exit $?"
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


def _stuck(name: str, container: JSON, *names: str, **more: Any) -> Situation:
    return Situation(_alone(name, container, **more), names)


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
    "agent-without-rights": Situation(
        manifest(
            group(
                pods_per_job=2,
                pod={
                    "restartPolicy": "OnFailure",
                    "containers": [{"name": "main", "image": PYTHON, "command": ["true"]}],
                },
                job={"backoffLimit": 2147483647, "podReplacementPolicy": "Failed"},
            ),
            name="agent-without-rights",
            failurePolicy={
                "maxRestarts": 1,
                "restartStrategy": "InPlaceRestart",
                "agent": {"image": AGENT, "mode": "MainContainer"},
            },
        ),
        ("2 pods have not reported the attempt in place",),
    ),
    "image-only-local": _stuck("image-only-local", {"image": "trainer:9", "imagePullPolicy": "Never"}, "trainer:9"),
    "program-not-executable": _stuck(
        "program-not-executable", {"command": ["/etc/passwd"]}, "/etc/passwd", "permission denied"
    ),
    "folder-is-a-file": _stuck("folder-is-a-file", {"workingDir": "/etc/passwd"}, "/etc/passwd"),
    "key-not-there": _stuck(
        "key-not-there",
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": ROOT_CA, "key": "nope"}}}]},
        "nope",
        ROOT_CA,
    ),
    "secret-of-all-variables-not-there": _stuck(
        "secret-of-all-variables-not-there", {"envFrom": [{"secretRef": {"name": "nope"}}]}, 'secret "nope" not found'
    ),
    "variable-of-path-not-there": _stuck(
        "variable-of-path-not-there",
        {"volumeMounts": [{"name": "data", "mountPath": "/data", "subPathExpr": "$(NOPE)"}]},
        "NOPE",
        volumes=[{"name": "data", "emptyDir": {}}],
    ),
    "file-of-volume-not-there": _stuck(
        "file-of-volume-not-there",
        DATA,
        "nope",
        volumes=[{"name": "data", "configMap": {"name": ROOT_CA, "items": [{"key": "nope", "path": "nope"}]}}],
    ),
    "host-folder-not-there": _stuck(
        "host-folder-not-there",
        DATA,
        "/mnt/nope",
        volumes=[{"name": "data", "hostPath": {"path": "/mnt/nope", "type": "Directory"}}],
    ),
    "driver-not-there": _stuck(
        "driver-not-there", DATA, "csi.example.com", volumes=[{"name": "data", "csi": {"driver": "csi.example.com"}}]
    ),
    "file-server-not-there": _stuck(
        "file-server-not-there",
        DATA,
        "10.200.0.99:/data",
        volumes=[{"name": "data", "nfs": {"server": "10.200.0.99", "path": "/data"}}],
    ),
    "claim-not-there": _stuck(
        "claim-not-there", DATA, "nope", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "nope"}}]
    ),
    "no-node-of-that-label": _stuck("no-node-of-that-label", {}, "disk", nodeSelector={"disk": "tape"}),
    "no-node-so-large": _stuck("no-node-so-large", {"resources": {"requests": {"cpu": "90"}}}, "cpu"),
    "no-node-with-devices": _stuck(
        "no-node-with-devices", {"resources": {"limits": {"nvidia.com/gpu": "1"}}}, "nvidia.com/gpu"
    ),
    "port-of-node-taken": _stuck(
        "port-of-node-taken",
        {"ports": [{"containerPort": 9998, "hostPort": 9998}]},
        "port",
        nodeSelector={"kubernetes.io/hostname": "real-0"},
    ),
    "gate-not-lifted": _stuck(
        "gate-not-lifted", {}, "example.com/quota", schedulingGates=[{"name": "example.com/quota"}]
    ),
    "scheduler-not-there": _stuck("scheduler-not-there", {}, "batch-scheduler", schedulerName="batch-scheduler"),
    "account-not-there": _stuck("account-not-there", {}, "trainer", serviceAccountName="trainer"),
    "init-does-not-end": _stuck(
        "init-does-not-end",
        {},
        "prepare",
        initContainers=[{"name": "prepare", "image": PYTHON, "command": ["sleep", "3600"]}],
    ),
    "not-alive": _stuck(
        "not-alive",
        {"livenessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}},
        "iveness probe",
        again=True,
    ),
    "hook-fails": _stuck(
        "hook-fails", {"lifecycle": {"postStart": {"exec": {"command": ["false"]}}}}, "PostStartHook", again=True
    ),
    "crashes": _stuck("crashes", {"command": ["sh", "-c", ABORTS]}, "exit code 134", again=True),
    "profile-not-there": _stuck(
        "profile-not-there",
        {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "train.json"}}},
        "train.json",
    ),
}
QUICK = ("image-not-there", "configmap-not-there", "out-of-memory")
"""Those of `make test`."""
