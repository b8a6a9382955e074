"""Sets the variables by which containers of elastic ReplicatedJobs learn how many Jobs there are. Pure.

See docs/concepts/elastic.md#how-workers-learn-the-number.
"""

import re
from typing import Any, Final

from api import keys
from api.batch import pods_at_once
from api.jobset import ReplicatedJob
from kube.model.meta import JSON

REPLICAS_VARIABLE: Final = "JOBSET_REPLICAS"
NODES_VARIABLE: Final = "PET_NNODES"
"""The variable in which torchrun reads the number of nodes."""
NUMBER_PATH: Final = f"metadata.labels['{keys.REPLICATED_JOB_REPLICAS}']"
"""The field path of the label with the number. A resume can set labels of a Job's template, but no variables."""

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_CONTAINER_LISTS: Final = ("containers", "initContainers")


def with_replicas_variables(rjob: ReplicatedJob, pod: JSON, names_reading_node_count: frozenset[str]) -> JSON:
    """The pod spec of an elastic ReplicatedJob with a variable in each container that has the number of Jobs.

    `names_reading_node_count`: names of all ReplicatedJobs of the set for which `may_read_node_count` is true.
    """
    counts_jobs = pods_at_once(rjob) == 1 and names_reading_node_count <= {rjob.name}
    lists = {key: pod[key] for key in _CONTAINER_LISTS if pod.get(key)}
    return pod | {key: [_container_with_replicas(rjob, each, counts_jobs) for each in lists[key]] for key in lists}


def may_read_node_count(rjob: ReplicatedJob) -> bool:
    """Whether a ReplicatedJob may take part in a training with torchrun, which reads the number of nodes."""
    containers = [container for key in _CONTAINER_LISTS for container in rjob.pod_spec.get(key) or []]
    variables = (variable.get("name") for container in containers for variable in container.get("env") or [])
    words = (word for container in containers for key in ("command", "args") for word in container.get(key) or [])
    return not rjob.spare_for and (NODES_VARIABLE in variables or any("--nnodes" in word for word in words))


def is_replaced_node_count(rjob: ReplicatedJob, value: Any) -> bool:
    """Whether `value`, a number of nodes in a template, is within the bounds of `elastic`, so that it counts Jobs.

    The number of Jobs then replaces it. 1 is kept, since Jobs that train independently of each other also have 1 node.
    """
    bounds = rjob.elastic
    if bounds is None or not isinstance(value, str) or _NUMBER.fullmatch(value) is None:
        return False
    return max(bounds.min, 2) <= int(value) <= bounds.max


def _container_with_replicas(rjob: ReplicatedJob, container: JSON, counts_jobs: bool) -> JSON:
    """The container with the variables. Variables of the template stay, except for a number of nodes that is replaced.

    `counts_jobs`: the number of nodes is the number of Jobs, since each Job has one pod and no other ReplicatedJob
    takes part.
    """
    source: JSON = {"valueFrom": {"fieldRef": {"fieldPath": NUMBER_PATH}}}
    env: list[JSON] = [
        {"name": NODES_VARIABLE, **source}
        if counts_jobs
        and variable.get("name") == NODES_VARIABLE
        and is_replaced_node_count(rjob, variable.get("value"))
        else variable
        for variable in container.get("env") or []
    ]
    if all(variable.get("name") != REPLICAS_VARIABLE for variable in env):
        env.append({"name": REPLICAS_VARIABLE, **source})
    return {**container, "env": env}
