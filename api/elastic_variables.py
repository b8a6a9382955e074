"""Sets environment variables that tell the containers of an elastic ReplicatedJob how many Jobs it has. Pure.

The number of Jobs of an elastic ReplicatedJob may change (docs/concepts/elastic.md#how-workers-learn-the-number). Each
container gets JOBSET_REPLICAS. In a training with torchrun, each Job usually is one node, so the number of Jobs also
replaces the number of nodes, which torchrun reads from PET_NNODES.
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
"""The field path of the pod label with the number of Jobs.

The variables refer to this label, since a suspended Job can get new pod labels, but no new variables.
"""

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_CONTAINER_LISTS: Final = ("containers", "initContainers")


def with_replicas_variables(rjob: ReplicatedJob, pod: JSON, names_reading_node_count: frozenset[str]) -> JSON:
    """The pod spec of an elastic ReplicatedJob with the variables in each container.

    `names_reading_node_count`: names of the ReplicatedJobs of the JobSet for which `may_read_node_count` is true.
    """
    # The number of nodes is the number of Jobs if each Job has one pod and no other ReplicatedJob has nodes.
    is_job_a_node = pods_at_once(rjob) == 1 and names_reading_node_count <= {rjob.name}
    lists = {key: pod[key] for key in _CONTAINER_LISTS if pod.get(key)}
    return pod | {key: [_container_with_replicas(rjob, each, is_job_a_node) for each in lists[key]] for key in lists}


def may_read_node_count(rjob: ReplicatedJob) -> bool:
    """Whether the pods of a ReplicatedJob may be nodes of torchrun, which reads the number of nodes."""
    containers = [container for key in _CONTAINER_LISTS for container in rjob.pod_spec.get(key) or []]
    variables = (variable.get("name") for container in containers for variable in container.get("env") or [])
    words = (word for container in containers for key in ("command", "args") for word in container.get(key) or [])
    return not rjob.spare_for and (NODES_VARIABLE in variables or any("--nnodes" in word for word in words))


def is_replaced_node_count(rjob: ReplicatedJob, value: Any) -> bool:
    """Whether the number of Jobs replaces `value`, which is PET_NNODES in a template.

    It does if `value` is within the bounds of `elastic`. But 1 is kept, since it may mean that each Job is a training
    by itself.
    """
    bounds = rjob.elastic
    if bounds is None or not isinstance(value, str) or _NUMBER.fullmatch(value) is None:
        return False
    return max(bounds.min, 2) <= int(value) <= bounds.max


def _container_with_replicas(rjob: ReplicatedJob, container: JSON, is_job_a_node: bool) -> JSON:
    """The container with the variables. Variables of the user stay, except for a number of nodes that is replaced.

    `is_job_a_node`: whether the number of nodes of torchrun is the number of Jobs.
    """
    source: JSON = {"valueFrom": {"fieldRef": {"fieldPath": NUMBER_PATH}}}
    env: list[JSON] = [
        {"name": NODES_VARIABLE, **source}
        if is_job_a_node
        and variable.get("name") == NODES_VARIABLE
        and is_replaced_node_count(rjob, variable.get("value"))
        else variable
        for variable in container.get("env") or []
    ]
    if all(variable.get("name") != REPLICAS_VARIABLE for variable in env):
        env.append({"name": REPLICAS_VARIABLE, **source})
    return {**container, "env": env}
