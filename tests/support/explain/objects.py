"""Jobs and pods of a JobSet as JSON, as its controllers would have made them, for `jobset explain` to look at."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from api import keys
from api.event import SeenEvent
from api.jobset import JobSet
from api.names import job_key
from cli.explain import show
from diagnose.facts import Facts, SeenJob, SeenLease, SeenPod
from diagnose.reasons import explain
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
RACK = "rack"
MOMENT = datetime(2026, 11, 21, 14, 5, 3, tzinfo=UTC)
"""Since when things wait."""

NOW = MOMENT + timedelta(minutes=12)
"""When it is explained."""


def at(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def exclusive(name: str = "workers", *, on_pods: bool = False, **fields: Any) -> JSON:
    """A ReplicatedJob each Job of which wants a rack of its own. `on_pods`: its pod template has the annotation."""
    body = rjob(name, **fields)
    template = body["template"]["spec"]["template"] if on_pods else body["template"]
    template.setdefault("metadata", {})["annotations"] = {keys.EXCLUSIVE_TOPOLOGY: RACK}
    return body


def owner(obj: JSON) -> JSON:
    """A controller reference to a stored object."""
    meta = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


def job_of(js: JSON, index: int, rjob_name: str = "workers", *, attempt: int = 0, **spec: Any) -> JSON:
    """A Job of a stored JobSet, as it is posted."""
    meta = js["metadata"]
    template = next(r for r in js["spec"]["replicatedJobs"] if r["name"] == rjob_name)["template"]
    name = f"{meta['name']}-{rjob_name}-{index}"
    labels = {
        keys.JOBSET_NAME: meta["name"],
        keys.REPLICATED_JOB_NAME: rjob_name,
        keys.JOB_INDEX: str(index),
        keys.RESTART_ATTEMPT: str(attempt),
        keys.JOB_KEY: job_key(meta["namespace"], name),
    }
    annotations = {**((template.get("metadata") or {}).get("annotations") or {}), keys.JOBSET_NAME: meta["name"]}
    pod = template["spec"]["template"]
    pod_annotations = {**((pod.get("metadata") or {}).get("annotations") or {}), **annotations}
    pod = {**pod, "metadata": {"labels": labels, "annotations": pod_annotations}}
    pod["spec"] = {"restartPolicy": "Never", **pod["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner(js)],
        },
        "spec": {**template["spec"], "completionMode": "Indexed", **spec, "template": pod},
    }


def pod_of(
    job: JSON,
    index: int = 0,
    *,
    node: str = "",
    unscheduled: str = "",
    phase: str = "",
    containers: list[JSON] | None = None,
    gates: tuple[str, ...] = (),
    labels: JSON | None = None,
    **spec: Any,
) -> JSON:
    """A pod of a stored Job. `unscheduled`: what the scheduler said about it at `MOMENT`."""
    template = job["spec"]["template"]
    meta = template["metadata"]
    conditions = []
    if unscheduled:
        said = {"status": "False", "reason": "Unschedulable", "message": unscheduled, "lastTransitionTime": at(MOMENT)}
        conditions.append({"type": "PodScheduled", **said})
    status = {"phase": phase or ("Running" if node else "Pending"), "conditions": conditions}
    if node and not containers:
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": at(MOMENT)})
    more = {"nodeName": node} if node else {}
    more |= {"schedulingGates": [{"name": name} for name in gates]} if gates else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job['metadata']['name']}-{index}",
            "namespace": job["metadata"]["namespace"],
            "labels": {
                **meta["labels"],
                keys.JOB_UID: job["metadata"]["uid"],
                keys.COMPLETION_INDEX: str(index),
                **(labels or {}),
            },
            "annotations": {**meta["annotations"], keys.COMPLETION_INDEX: str(index)},
            "ownerReferences": [owner(job)],
        },
        "spec": {"containers": template["spec"]["containers"], **more, **spec},
        "status": status | ({"containerStatuses": containers} if containers else {}),
    }


def a_set(*rjobs: JSON, labels: JSON | None = None, status: JSON | None = None, **spec: Any) -> JSON:
    """A stored JobSet `train` in namespace `team-a`, by default of one Job."""
    js = made(stored(jobset(*(rjobs or (rjob(),)), namespace="team-a", **spec)), **(status or {}))
    js["metadata"]["labels"] = labels or {}
    return js


def condition(kind: str, reason: str, message: str = "", status: str = "True") -> JSON:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at(MOMENT)}


def running(
    js: JSON, index: int, rjob_name: str = "workers", *, ready: int = 1, attempt: int = 0, **status: Any
) -> JSON:
    """A Job of the set with one pod, which is ready unless `ready` says otherwise."""
    return made(job_of(js, index, rjob_name, attempt=attempt), **{"active": 1, "ready": ready, **status})


def leader_of(job: JSON, **pod: Any) -> JSON:
    """The pod with index 0."""
    return pod_of(job, 0, **pod)


def walk(finding: JSON) -> Iterator[JSON]:
    """A finding of the JSON form and all below it."""
    yield finding
    for under in finding["because"]:
        yield from walk(under)


def made(obj: JSON, uid: str = "", **status: Any) -> JSON:
    """The object as the API server would give it back: with a uid and a status."""
    meta = {"creationTimestamp": at(MOMENT), **obj["metadata"]}
    return {
        **obj,
        "metadata": {**meta, "uid": uid or f"uid-{meta['name']}"},
        "status": {**obj.get("status", {}), **status},
    }


def facts(js: JSON, jobs: Iterable[JSON] | None = (), pods: Iterable[JSON] | None = (), **known: Any) -> Facts:
    """What would have been read. Events in `warnings`, `job_warnings` and `ends`, and `lease`, are JSON, too."""
    if (lease := known.pop("lease", None)) is not None:
        known["lease"] = msgspec.convert(lease, SeenLease)
    for name in {"warnings", "job_warnings", "pod_warnings", "disruption_events"} & known.keys():
        known[name] = tuple(msgspec.convert(event, SeenEvent) for event in known[name])
    return Facts(
        now=NOW,
        jobset=msgspec.convert(js, JobSet),
        jobs=None if jobs is None else tuple(msgspec.convert(job, SeenJob) for job in jobs),
        pods=None if pods is None else tuple(msgspec.convert(pod, SeenPod) for pod in pods),
        **known,
    )


def lease(ago: float = 2, holder: str = "somebody") -> JSON:
    """The manager's lease, renewed so many seconds ago."""
    renewed = (NOW - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}}


def event(reason: str, note: str, *, about: str = "", ago: float = 60) -> JSON:
    """A Warning; `about` is the uid of what it is about."""
    moment = (NOW - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"reason": reason, "note": note, "regarding": {"uid": about}, "eventTime": moment}


def explanation_of(given: Facts) -> tuple[str, JSON]:
    """The text of an explanation, and its JSON form."""
    explanation = explain(given)
    return "\n".join(show.text_lines(explanation, given.now)), show.json_form(explanation, given.now)


def explained(
    js: JSON, jobs: Iterable[JSON] | None = (), pods: Iterable[JSON] | None = (), **known: Any
) -> tuple[str, JSON]:
    """The same, while a manager holds the lease."""
    return explanation_of(facts(js, jobs, pods, lease=lease(), **known))


def held(
    job: str, node: str, priority: int = 0, *, exclusive: bool = True, needs: JSON | None = None, **meta: Any
) -> SeenPod:
    """A pod that is on a node, by the name of its Job, in namespace `team-b`; its set has the name of the Job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
    annotations = {keys.JOBSET_NAME: job, **({keys.EXCLUSIVE_TOPOLOGY: RACK} if exclusive else {})}
    meta = {"name": f"{job}-0", "namespace": "team-b", "uid": f"pod-{job}", "ownerReferences": [owner], **meta}
    meta |= {"labels": {keys.JOBSET_NAME: job}, "annotations": annotations}
    spec = {"nodeName": node, "priority": priority, "containers": [{"resources": {"requests": needs or {}}}]}
    return msgspec.convert({"metadata": meta, "spec": spec}, SeenPod)


def causes(body: JSON) -> list[str]:
    """The causes of all findings below the root, from top to bottom."""
    return [finding["cause"] for finding in walk(body)][1:]
