"""Pods as the Job controller makes them, of which there may be tens of thousands."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from api import keys
from dev.simulator.patches import JSON
from dev.simulator.storage import Key, Plain


def managed_fields(manager: str, when: str, fields: Iterable[str]) -> list[JSON]:
    """metadata.managedFields, which real objects carry and clients have to skip."""
    owned: JSON = {f"f:{name}": {} for name in fields}
    entry = {"manager": manager, "operation": "Update", "time": when, "fieldsType": "FieldsV1"}
    return [{**entry, "fieldsV1": {"f:metadata": {"f:labels": owned, "f:annotations": owned}, "f:spec": owned}}]


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    """A pod: its Job's template and what is its own, since there are many.

    `restarts`: of its containers, all together. While one of a running pod is `starting`, the pod is not ready.
    `attempt`: what its agent for restarts in place has reported.
    """

    job: Plain
    index: int
    name: str
    uid: str
    created: str
    version: int = 0
    node: str = ""
    phase: str = "Pending"
    deleted: str = ""
    restarts: int = 0
    starting: bool = False
    attempt: str = ""

    @property
    def ready(self) -> bool:
        """Whether its containers run."""
        return self.phase == "Running" and not self.starting

    @property
    def key(self) -> Key:
        return self.job.key[0], self.name

    @property
    def owners(self) -> tuple[str, ...]:
        return (self.job.uid,)

    @property
    def _template(self) -> JSON:
        template: JSON = self.job.content["spec"]["template"]
        return template

    def label(self, key: str) -> str | None:
        if key == keys.COMPLETION_INDEX:
            return str(self.index)
        found: str | None = self._template["metadata"]["labels"].get(key)
        return found

    def at(self, version: int) -> "Pod":
        return replace(self, version=version)

    def body(self) -> JSON:
        spec, meta = self._template["spec"], self._template["metadata"]
        index = {keys.COMPLETION_INDEX: str(self.index)}
        reported = {keys.IN_PLACE_RESTART_ATTEMPT: self.attempt} if self.attempt else {}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": self.job.key[1], "uid": self.job.uid}
        steps = {"PodScheduled": True} if self.node else {}
        if self.phase == "Running":
            steps |= {"Initialized": True, "ContainersReady": self.ready, "Ready": self.ready}
        conditions = [
            {"type": step, "status": str(holds), "lastTransitionTime": self.created} for step, holds in steps.items()
        ]
        return {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": self.name,
                "generateName": f"{self.job.key[1]}-{self.index}-",
                "namespace": self.job.key[0],
                "uid": self.uid,
                "resourceVersion": str(self.version),
                "creationTimestamp": self.created,
                **({"deletionTimestamp": self.deleted, "deletionGracePeriodSeconds": 30} if self.deleted else {}),
                "labels": {**meta["labels"], **index},
                "annotations": {**meta["annotations"], **index, **reported},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
                "finalizers": [keys.JOB_TRACKING],
                "managedFields": [
                    *managed_fields("kube-controller-manager", self.created, meta["labels"]),
                    *(managed_fields("in-place-restart-agent", self.created, reported) if reported else ()),
                ],
            },
            "spec": {**spec, **({"nodeName": self.node} if self.node else {}), "hostname": self.name},
            "status": {
                "phase": self.phase,
                "conditions": conditions,
                "qosClass": "Burstable",
                **({"containerStatuses": self._containers()} if self.phase == "Running" else {}),
            },
        }

    def _containers(self) -> list[JSON]:
        """The container statuses that the kubelet reports."""
        state = {"terminated": {"exitCode": 1, "reason": "Error"}} if self.starting else {"running": {}}
        shared = {"ready": self.ready, "started": self.ready, "restartCount": self.restarts, "state": state}
        return [
            {
                "name": container["name"],
                "image": container["image"],
                "containerID": f"containerd://{self.uid}",
                **shared,
            }
            for container in self._template["spec"].get("containers", ())
        ]
