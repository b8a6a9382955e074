"""ReplicatedJobs in which one part is of interest, in as few words as a test needs."""

from typing import Any

from tests.support.cluster.dry_run import container, pod
from tests.support.objects.jobsets import JSON, rjob

GIT = {"name": "data", "emptyDir": {}}
FIELD = {"fieldRef": {"fieldPath": "metadata.name"}}
CODES = {"operator": "In", "values": [3]}
TERM = {"key": "zone", "operator": "In", "values": ["a"]}
POD_TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"a": "b"}},
}


def main(**fields: Any) -> JSON:
    """With these fields of its one container."""
    return rjob(pod=pod(container(**fields)))


def resources(**fields: Any) -> JSON:
    return main(resources=fields)


def mounts(*wanted: JSON, volumes: tuple[JSON, ...] = (GIT,), **fields: Any) -> JSON:
    return rjob(pod=pod(container(volumeMounts=list(wanted), **fields), volumes=list(volumes)))


def volume(**source: Any) -> JSON:
    return rjob(pod=pod(volumes=[{"name": "v", **source}]))


def env(**variable: Any) -> JSON:
    return main(env=[variable])


def probe(**fields: Any) -> JSON:
    return main(livenessProbe={"exec": {"command": ["true"]}, **fields})


def failing(*rules: JSON, restartPolicy: str = "Never", **job: Any) -> JSON:  # noqa: N803 (the field's name)
    return rjob(pod=pod(restartPolicy=restartPolicy), job={"podFailurePolicy": {"rules": list(rules)}, **job})


def on_codes(**fields: Any) -> JSON:
    return failing({"action": "FailJob", "onExitCodes": {**CODES, **fields}})


def succeeding(*rules: JSON, completions: int = 4, **job: Any) -> JSON:
    return rjob(completions=completions, job={"successPolicy": {"rules": list(rules)}, **job})


def meta(**metadata: Any) -> JSON:
    return rjob(job={"template": {"metadata": metadata, "spec": pod()}})


def tolerate(**fields: Any) -> JSON:
    return rjob(pod=pod(tolerations=[fields]))


def nodes(*terms: JSON) -> JSON:
    """Terms about labels of nodes."""
    wanted = {"nodeSelectorTerms": [{"matchExpressions": list(terms)}]}
    return rjob(pod=pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}))


def pods(*, kind: str = "podAffinity", **term: Any) -> JSON:
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": [{**POD_TERM, **term}]}
    return rjob(pod=pod(affinity={kind: wanted}))


def spread(*constraints: JSON) -> JSON:
    return rjob(pod=pod(topologySpreadConstraints=list(constraints)))


def before(**fields: Any) -> JSON:
    return rjob(pod=pod(initContainers=[container(name="before", **fields)]))
