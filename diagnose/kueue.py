"""The parts of Kueue that the commands know: its API group, and its Workloads. Pure."""

from typing import Final

from api.jobset import JobSet
from kube.resources import KUEUE_WORKLOADS

GROUP: Final = KUEUE_WORKLOADS.group
"""API group of Kueue. In a cluster without this group, the label of a queue has no effect."""
JOB_UID: Final = f"{GROUP}/job-uid"
"""Label of a Workload: the UID of its owner."""


def workloads_of(js: JobSet) -> str:
    """The command that shows Kueue's Workload of a JobSet, with the API group, as Kubernetes has Workloads, too."""
    return f"kubectl get workloads.{GROUP} -n {js.metadata.namespace} -l {JOB_UID}={js.metadata.uid}"
