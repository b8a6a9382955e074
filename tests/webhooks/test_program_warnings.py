"""Variables, addresses and ranks that people write into commands: what is right there gets no warning."""

from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob
from webhooks.jobset.validate_create import TEXT_CHECKS
from webhooks.work import Work

ENGINE = engine(FeatureGates({"AllAlpha": True}))
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def container(*command: str, env: dict[str, str] | list[JSON] | None = None, **fields: Any) -> JSON:
    variables = [{"name": name, "value": value} for name, value in env.items()] if isinstance(env, dict) else env
    return {
        "name": "main",
        "image": "registry.example.com/train:1",
        "command": list(command),
        "env": variables,
        **fields,
    }


def one(
    each: JSON,
    pod: JSON | None = None,
    *,
    pods: int = 2,
    replicas: int = 1,
    name: str = "mesh",
    job: JSON | None = None,
    spec: JSON | None = None,
    elastic: JSON | None = None,
) -> JSON:
    """A set of one ReplicatedJob `jax`, of which each pod has this container."""
    pod = {"restartPolicy": "Never", "containers": [each], **(pod or {})}
    workers = rjob("jax", replicas=replicas, parallelism=pods, completions=pods, pod=pod)
    workers["template"]["spec"] |= job or {}
    workers |= {"elastic": elastic} if elastic else {}
    return jobset(workers, name=name, **(spec or {}))


def rules_of(js: JSON) -> list[str]:
    findings = ENGINE.findings_about_new(js)
    assert not findings.errors
    return [warning.rule.id for warning in findings.warnings if warning.rule]


def field(path: str, name: str = "RANK") -> JSON:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


RIGHT: dict[str, JSON] = {
    "a shell reads the words": one(
        container("bash", "-c", "train --rank=$JOB_COMPLETION_INDEX --host=$(hostname) $(WHO)")
    ),
    "a shell behind another program": one(container("timeout", "60", "/bin/sh", "-c", "exec train $RANK")),
    "a script that may read them": one(container("/opt/run.sh", "$RANK", "$(RANK)")),
    "an entry point that may be a shell": one(container(args=["--rank=$RANK"])),
    "a program that reads $ itself": one(container("envsubst", "$HOST")),
    "a program as an argument": one(container("perl", "-e", "$X"), name="a"),
    "escaped": one(container("train", "--text=$$(NAME)", "--other=$$NAME", env={"A": "$$(NAME)"})),
    "the index in a command": one(container("train", "--rank=$(JOB_COMPLETION_INDEX)")),
    "a variable before": one(container("train", "$(URL)", env={"HOST": "a", "URL": "tcp://$(HOST):80"})),
    "the index, read first": one(
        container("train", "$(RANK)", env=[field(INDEX, "RANK"), {"name": "NODE_RANK", "value": "$(RANK)"}])
    ),
    "names of a Secret are not known": one(
        container(
            "train",
            "--token=$(TOKEN)",
            env={"URL": "http://$(USER):$(TOKEN)@a"},
            envFrom=[{"secretRef": {"name": "s"}}],
        )
    ),
    "variables of Services and clouds": one(
        container(
            "train",
            "$(REDIS_SERVICE_HOST):$(REDIS_SERVICE_PORT_HTTP)",
            "$(TPU_WORKER_ID)",
            env={"A": "$(REDIS_PORT_80_TCP_ADDR)"},
        )
    ),
    "a script in a variable": one(container("train", env={"SCRIPT": "echo $(date)\nexec $(PROGRAM) now"})),
    "lower case, as templates of programs have it": one(
        container("train", "--dir=$run_{name}", "--out=${oc.env:HOME}", "cost$5")
    ),
    "addresses of pods": one(
        container("train", "--peer=mesh-jax-0-1.mesh", "--url=http://mesh-jax-0-0.mesh.default.svc.cluster.local:80/x")
    ),
    "a Service in a namespace of this name": one(
        container("train", env={"REDIS": "redis.mesh.svc:6379", "DB": "mesh-db.mesh"})
    ),
    "a Service that is called like a pod": one(
        container("train", env={"A": "mesh-jax-0-0.mesh-b.svc"}), spec={"namespace": ""}
    ),
    "files and names that are no addresses": one(
        container(
            "train",
            "--out=gs://bucket/mesh-jax-0-0.tar.gz",
            "--name=mesh-jax-0-0",
            "/data/mesh-jax-0-9.mesh/x",
            "mesh-2-1",
        )
    ),
    "addresses that variables complete": one(
        container(
            "train",
            "mesh-jax-0-$(JOB_COMPLETION_INDEX).mesh",
            env={"JOB": "mesh-jax-0", "A": "$(JOB)-7.mesh", "B": "x.mesh-jax-0-7.mesh"},
        )
    ),
    "addresses of another set": one(
        container("train", env={"A": "mesh-b-jax-0-0.mesh-b", "MASTER_ADDR": "other-w-0-9.other"})
    ),
    "another namespace": one(
        container("train", env={"A": "mesh-jax-0-9.mesh.team-b.svc"}), spec={"namespace": "team-a"}
    ),
    "bare names that a search list completes": one(
        container("train", env={"MASTER_ADDR": "mesh-jax-0-0"}),
        {"dnsConfig": {"searches": ["mesh.default.svc.cluster.local"]}},
    ),
    "no names at all": one(
        container("train", env={"A": "mesh-jax-0-9.mesh"}),
        {"hostNetwork": True, "subdomain": "own"},
        spec={"network": {"enableDNSHostnames": False}},
    ),
    "host network with the DNS of the cluster": one(
        container("train"), {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    ),
    "host network with a DNS of its own": one(
        container("train"), {"hostNetwork": True, "dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.10"]}}
    ),
    "host network of a single pod": one(container("train"), {"hostNetwork": True}, pods=1),
    "the subdomain of the set": one(container("train"), {"subdomain": "mesh"}),
    "the subdomain that the set names": one(
        container("train"), {"subdomain": "s"}, spec={"network": {"subdomain": "s"}}
    ),
    "a host name that fits": one(container("train"), {"setHostnameAsFQDN": True}),
    "a long host name of the node": one(
        container("train"),
        {"setHostnameAsFQDN": True, "hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
        name="nccl-allgather-benchmark",
    ),
    "nodes of a Job": one(container("torchrun", "--nnodes=2"), replicas=3),
    "nodes of all Jobs": one(container("torchrun", "--nnodes", "6"), replicas=3),
    "each pod by itself": one(container("torchrun", "--nnodes=1")),
    "a range": one(container("torchrun", "--nnodes=1:8", env={"PET_NNODES": "2:4"})),
    "a number that follows the Jobs": one(
        container("torchrun", env={"PET_NNODES": "4"}), pods=1, replicas=3, elastic={"min": 2, "max": 4}
    ),
    "the number of Jobs in a command": one(
        container("torchrun", "--nnodes=$(JOBSET_REPLICAS)"), pods=1, replicas=3, elastic={"min": 2, "max": 4}
    ),
    "two commands": one(container("sh", "-c", "torchrun --nnodes=3 a.py || torchrun --nnodes=5 a.py")),
    "nodes of two ReplicatedJobs": jobset(
        rjob(
            "a",
            pod={"restartPolicy": "Never", "containers": [container("torchrun", "--nnodes=3")]},
            parallelism=1,
            completions=1,
        ),
        rjob("b", pod={"restartPolicy": "Never", "containers": [container("x")]}, parallelism=2, completions=2),
        rjob("c", pod={"restartPolicy": "Never", "containers": [container("x")]}, parallelism=7, completions=7),
    ),
    "the index beside that of the Job": one(
        container("train", env=[field(INDEX), field("metadata.labels['jobset.sigs.k8s.io/job-index']", "JOB")]),
        pods=1,
        replicas=4,
    ),
    "the index beside the name of the pod": one(
        container("train", env=[field(INDEX), field("metadata.name", "POD")]), pods=1, replicas=4
    ),
    "the index beside the name of the Job": one(
        container("train", env=[field(INDEX), field("metadata.labels['batch.kubernetes.io/job-name']", "JOB")]),
        pods=1,
        replicas=4,
    ),
    "the index beside the host name": one(
        container("sh", "-c", "train $(hostname) $JOB_COMPLETION_INDEX"), pods=1, replicas=4
    ),
    "the index of a single Job": one(container("train", "--rank=$(JOB_COMPLETION_INDEX)"), pods=1),
    "containers that restart, of pods by themselves": one(
        container("train"),
        {"restartPolicy": "OnFailure"},
        job={"backoffLimit": 3},
        spec={"failurePolicy": {"maxRestarts": 2}},
    ),
    "a set that restarts at once": one(
        container("torchrun", "--nnodes=2"),
        {"restartPolicy": "OnFailure"},
        job={"backoffLimit": 0},
        spec={"failurePolicy": {"maxRestarts": 2}},
    ),
}


@pytest.mark.parametrize("case", RIGHT)
def test_what_is_right_gets_no_warning(case: str):
    assert rules_of(RIGHT[case]) == []


WRONG: dict[str, tuple[JSON, str]] = {
    "a variable that is defined by itself": (
        one(container("train", env={"PATH": "$(PATH):/opt"})),
        "variable-undefined",
    ),
    "a misspelt one": (one(container("train", "$(WORLD_SZIE)", env={"WORLD_SIZE": "2"})), "variable-undefined"),
    "the index of a Job without one": (
        one(container("train", "$(JOB_COMPLETION_INDEX)"), job={"completionMode": "NonIndexed"}),
        "variable-undefined",
    ),
    "the index behind a Secret": (
        one(container("train", env={"A": "$(JOB_COMPLETION_INDEX)"}, envFrom=[{"secretRef": {"name": "s"}}])),
        "variable-later",
    ),
    "the number of Jobs, which is added last": (
        one(container("torchrun", env={"PET_NNODES": "$(JOBSET_REPLICAS)"}), elastic={"min": 1, "max": 4}),
        "variable-later",
    ),
    "the number of Jobs, which is not added": (
        one(container("torchrun", "--nnodes=$(JOBSET_REPLICAS)")),
        "variable-undefined",
    ),
    "with braces": (one(container("torchrun", "--node_rank", "${RANK}")), "command-variable-of-shell"),
    "an init container": (
        one(container("a"), {"initContainers": [container("wait", "$HOST")]}),
        "command-variable-of-shell",
    ),
    "a Job that does not exist": (one(container("train", "mesh-jax-1-0.mesh")), "address-of-no-pod"),
    "a Job for a pod": (one(container("train", "--peer", "mesh-jax-0.mesh:80")), "address-of-no-pod"),
    "without its subdomain": (one(container("torchrun", "--master_addr=mesh-jax-0-0")), "address-of-no-pod"),
    "without its subdomain, by a flag of two words": (
        one(container("torchrun", "--master_addr", "mesh-jax-0-0")),
        "address-of-no-pod",
    ),
    "without its subdomain, with a port": (one(container("sh", "-c", "nc mesh-jax-0-0:29500")), "address-of-no-pod"),
    "pods without an index": (
        one(container("train", "mesh-jax-0-0.mesh"), job={"completionMode": "NonIndexed"}),
        "address-of-no-pod",
    ),
    "too many nodes, in a variable": (one(container("torchrun", env={"PET_NNODES": "8"})), "nodes-not-pods"),
    "too many nodes for an elastic ReplicatedJob": (
        one(container("torchrun", env={"PET_NNODES": "8"}), pods=1, replicas=3, elastic={"min": 2, "max": 4}),
        "nodes-not-pods",
    ),
    "the index by a variable": (
        one(container("train", env=[field(INDEX)]), pods=1, replicas=2),
        "index-always-zero",
    ),
    "a default account": (
        one(
            container("agent"),
            {"restartPolicy": "OnFailure"},
            job={"backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed"},
            spec={"failurePolicy": {"maxRestarts": 2, "restartStrategy": "InPlaceRestart"}},
        ),
        "in-place-restart-no-rights",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_never_trains_is_named(case: str):
    js, rule = WRONG[case]
    assert rules_of(js) == [rule]


def test_reading_texts_costs_a_step_for_each_byte():
    def steps(length: int) -> float:
        work = Work(10**9)
        ENGINE.findings_about_new(one(container("train", "x" * length)), work=work)
        return 10**9 - work.steps_left

    assert steps(200_000) - steps(100_000) >= 100_000 * len(TEXT_CHECKS)
