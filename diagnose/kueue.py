"""The parts of Kueue that the commands know: its API, and where it records its decisions. Pure."""

from typing import Final

from api.jobset import JobSet
from kube.resources import KUEUE_WORKLOADS

GROUP: Final = KUEUE_WORKLOADS.group
"""API group of Kueue; in a cluster without it, the label of a queue has no effect."""
JOB_UID: Final = f"{GROUP}/job-uid"
"""Label of a Workload: the UID of its owner."""


def workloads_of(js: JobSet) -> str:
    """The command that shows Kueue's Workload of a JobSet. It names the group, since Kubernetes has Workloads, too."""
    return f"kubectl get workloads.{GROUP} -n {js.metadata.namespace} -l {JOB_UID}={js.metadata.uid}"
