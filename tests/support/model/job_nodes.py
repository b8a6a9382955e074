"""The nodes of the model cluster: one for each Job, and in exclusive placement a topology domain for each."""

from api.exclusive import topology_of
from kube.model.meta import JSON


def node_of_job(job: str) -> str:
    """Name of the only node on which there is room for a Job."""
    return f"node-of-{job}"


def domain_of_job(job: str) -> str:
    """Name of the topology domain in which that node is."""
    return f"rack-of-{job}"


def pod_place(job: JSON) -> tuple[JSON, dict[str, str]]:
    """Spec and annotations of a pod of a Job: its node, and in exclusive placement its topology domain."""
    name, annotations = (
        job["metadata"]["name"],
        (job["spec"]["template"].get("metadata") or {}).get("annotations") or {},
    )
    topology = topology_of(annotations)
    domain = {} if topology is None else {"nodeSelector": {topology: domain_of_job(name)}}
    return {"nodeName": node_of_job(name), **domain}, annotations
