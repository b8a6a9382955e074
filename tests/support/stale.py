"""A model of the API server for one namespace, and what everybody but the JobSet controller does there.

Every object is stored by version, and every change of a kind goes into the log of that kind, in order: a watch is a
place in that log, and a cache that is behind is an earlier place. Writes are answered as the API server answers them:
preconditions on UID and resourceVersion, names that exist, the rules by which a Job may change. Must not judge what
the controller does: `tests.support.ledger` does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from api import keys
from api.batch import Claim, Job, JobStatus, Owned, Service
from api.gang_status import StoredGroup, StoredWorkload
from api.jobset import JobSet
from api.jobset_status import JobSetStatus
from api.meta import OwnerReference
from api.pod import DetailedPod as Pod
from controllers.jobset.old_pods import OldPod, old_pod
from controllers.resources import JOBSETS
from kube.errors import AlreadyExists, ApiError, Call, Conflict, Invalid, NotFound, Status
from kube.resources import JOBS, PERSISTENT_VOLUME_CLAIMS, SERVICES
from simcluster import group_rules
from simcluster.patches import merge, strategic
from simcluster.selectors import matches
from tests.support.ledger import Ledger

JSON = dict[str, Any]
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = {JOBSETS.plural: JobSet, JOBS.plural: Job, SERVICES.plural: Service, PERSISTENT_VOLUME_CLAIMS.plural: Claim}
GROUPS = {"workloads": StoredWorkload, "compositepodgroups": StoredGroup, "podgroups": StoredGroup}
"""What is watched beside `KINDS` where sets have groups."""
PODS = {"pods": OldPod}
"""One stands for all pods of a Job; watched where a large set restarts."""
SCHEDULING = {"nodeSelector", "tolerations", "schedulingGates"}


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of an object: as JSON (of a JobSet, its status alone) and as caches hold it."""

    raw: JSON
    obj: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of the log of a kind."""

    version: int
    obj: Any
    deleted: bool


@dataclass(slots=True)
class Table:
    """The objects of a kind by name, and how they came to be. `hidden` ones carry no label of ours."""

    live: dict[str, Stored] = field(default_factory=dict)
    log: list[Entry] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)

    def at(self, position: int) -> dict[str, Any]:
        """What there was after that many entries of the log."""
        found: dict[str, Any] = {}
        for entry in self.log[:position]:
            name = entry.obj.metadata.name
            if entry.deleted:
                found.pop(name, None)
            else:
                found[name] = entry.obj
        return found


class Server:
    """The state of the namespace. `old` is a server before 1.36: a Job that has started keeps its pod template."""

    def __init__(self, ledger: Ledger, *, old: bool = False) -> None:
        self.ledger = ledger
        self.old = old
        self.version = 0
        self.seconds = 0
        self.writes = 0
        self.tables = {plural: Table() for plural in (*KINDS, *GROUPS, *PODS)}
        self.stuck: set[str] = set()
        self.pod_labels: dict[str, dict[str, str]] = {}
        self._uids = 0

    @property
    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.seconds)

    @property
    def time(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def jobset(self) -> JobSet | None:
        stored = self.tables["jobsets"].live.get("js")
        return stored.obj if stored else None

    @property
    def jobs(self) -> dict[str, Stored]:
        return self.tables["jobs"].live

    def job(self, name: str) -> Job:
        return self.jobs[name].obj

    # Storage

    def put(self, plural: str, raw: JSON, obj: Any) -> Any:
        """Store a new version; writing what is there already changes nothing."""
        table, name = self.tables[plural], obj.metadata.name
        old = table.live.get(name)
        if old is not None and old.raw == raw and old.obj == obj:
            return old.obj
        self.version += 1
        obj = _versioned(obj, self.version)
        table.live[name] = Stored(raw, obj)
        if name not in table.hidden:
            table.log.append(Entry(self.version, obj, deleted=False))
        self.ledger.changed(plural, obj)
        return obj

    def drop(self, plural: str, name: str) -> None:
        table = self.tables[plural]
        self.version += 1
        gone = _versioned(table.live.pop(name).obj, self.version)
        if name in table.hidden:
            table.hidden.remove(name)
        else:
            table.log.append(Entry(self.version, gone, deleted=True))

    def uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    def new_jobset(self, js: JobSet) -> None:
        """The user creates it."""
        meta = replace(js.metadata, uid=self.uid(), creation_timestamp=self.time, generation=1)
        self.put("jobsets", {}, replace(js, metadata=meta, status=JobSetStatus()))

    # What the controller asks for. Every one of these may raise what the API server would answer.

    def create(self, plural: str, body: JSON) -> Any:
        name = body["metadata"]["name"]
        if name in self.tables[plural].live:
            raise _error(AlreadyExists, 409, "create", f'{plural} "{name}" already exists', "AlreadyExists")
        raw = {**body, "metadata": {**body["metadata"], "uid": self.uid()}}
        if plural == "jobs":
            raw = _defaulted(raw)
        obj = msgspec.convert(raw, (KINDS | GROUPS)[plural])
        if plural == "jobs":
            self.ledger.job_created(obj, self.orphans())
        elif plural in GROUPS:
            self.ledger.group_created(obj)
        return self.put(plural, raw, obj)

    def get(self, plural: str, name: str) -> Any:
        stored = self.tables[plural].live.get(name)
        if stored is None:
            raise _error(NotFound, 404, "get", f'{plural} "{name}" not found')
        return stored.obj

    def delete(self, plural: str, name: str, uid: str) -> Any:
        """Foreground: the object stays, in deletion, until the garbage collector has done its part."""
        obj = self.get(plural, name)
        if uid and obj.metadata.uid != uid:
            raise _error(Conflict, 409, "delete", f"precondition failed: UID is {obj.metadata.uid}")
        if plural in GROUPS:
            self.ledger.group_changed(obj)
            return self.lose(plural, name)
        if plural == "jobs":
            self.ledger.job_deleted(obj)
        else:
            self.ledger.jobset_deleted(obj, self.now)
        return self.terminate(plural, name)

    def delete_jobs(self, selector: str) -> None:
        """In the background: they go at once, their pods end later."""
        for name, stored in list(self.jobs.items()):
            labels = {} if name in self.tables["jobs"].hidden else stored.obj.metadata.labels
            if matches(selector, labels):
                self.ledger.job_deleted(stored.obj)
                self.drop("jobs", name)

    def lose_job(self, name: str) -> None:
        """Somebody else deletes it in the background."""
        self.ledger.torn.add(self.job(name).metadata.uid)
        self.drop("jobs", name)

    def terminate(self, plural: str, name: str) -> Any:
        stored = self.tables[plural].live[name]
        meta = stored.obj.metadata
        if meta.deletion_timestamp is None:
            meta = replace(meta, deletion_timestamp=self.time, generation=meta.generation + 1)
        return self.put(plural, stored.raw, replace(stored.obj, metadata=meta))

    def lose(self, plural: str, name: str) -> Any:
        """A group that is deleted: a PodGroup stays until none of its pods is left."""
        if plural == "podgroups":
            return self.terminate(plural, name)
        self.drop(plural, name)
        return None

    def patch_group(self, plural: str, name: str, patch: JSON) -> Any:
        """Counts may change, those of composites excepted."""
        old = self.get(plural, name)
        if patch["metadata"]["uid"] != old.metadata.uid:
            raise _error(Conflict, 409, "patch", f"precondition failed: UID is {old.metadata.uid}")
        raw = merge(self.tables[plural].live[name].raw, patch)
        kind = "CompositePodGroup" if plural == "compositepodgroups" else "PodGroup"
        refusal = group_rules.change_refusal(kind, self.tables[plural].live[name].raw["spec"], raw["spec"])
        if refusal:
            raise _error(Invalid, 422, "patch", refusal)
        self.ledger.group_changed(old)
        return self.put(plural, raw, replace(old, spec=msgspec.convert(raw, GROUPS[plural]).spec))

    def patch_status(self, name: str, patch: JSON) -> JobSet:
        js = self.get("jobsets", name)
        meta = patch["metadata"]
        if meta["uid"] != js.metadata.uid or meta["resourceVersion"] != js.metadata.resource_version:
            raise _error(Conflict, 409, "patch", "the object has been modified")
        raw = merge(self.tables["jobsets"].live[name].raw, patch["status"])
        status = msgspec.convert(raw, JobSetStatus)
        self.ledger.status_written(js, status)
        return self.put("jobsets", raw, replace(js, status=status))

    def patch_job(self, name: str, patch: JSON, *, status: bool, by_keys: bool) -> Job:
        old = self.jobs.get(name)
        if old is None:
            raise _error(NotFound, 404, "patch", f'jobs "{name}" not found')
        if patch["metadata"]["uid"] != old.obj.metadata.uid:
            raise _error(Conflict, 409, "patch", f"precondition failed: UID is {old.obj.metadata.uid}")
        if status:
            if not old.obj.spec.suspend and old.obj.status.start_time is not None:
                raise _error(Invalid, 422, "patch", "startTime cannot be removed for unsuspended job")
            return self.put("jobs", old.raw, replace(old.obj, status=replace(old.obj.status, start_time=None)))
        raw = (strategic if by_keys else merge)(old.raw, patch)
        refusal = self._refusal(old, raw)
        if refusal:
            raise _error(Invalid, 422, "patch", refusal)
        new = msgspec.convert(raw, Job)
        new = replace(new, status=old.obj.status, metadata=_meta_of(new, old.obj))
        self.ledger.job_patched(old.obj, new)
        return self.put("jobs", raw, new)

    def _refusal(self, old: Stored, raw: JSON) -> str:
        """Why a Job may not become that, "" if it may (ValidateJobUpdate)."""
        job, before, after = old.obj, old.raw["spec"], raw["spec"]
        if before["completions"] != after["completions"] and (
            after["completionMode"] != "Indexed" or after["completions"] != after["parallelism"]
        ):
            return "spec.completions: field is immutable"
        if before["template"] == after["template"]:
            return ""
        halted = any(c.type == "Suspended" and c.status == "True" for c in job.status.conditions)
        fresh = job.status.start_time is None
        mutable = fresh if self.old else job.status.active == 0 and (fresh or halted)
        if not job.spec.suspend or not mutable:
            return "spec.template: field is immutable"
        have, want = (_immutable(spec["template"]) for spec in (before, after))
        return "" if have == want else "spec.template: field is immutable"

    # The Job controller

    def set_job_status(self, name: str, **changes: Any) -> None:
        stored = self.jobs[name]
        self.put("jobs", stored.raw, replace(stored.obj, status=replace(stored.obj.status, **changes)))

    def run(self, name: str, *, ready: bool) -> None:
        """Pods of a Job that may run do run."""
        job = self.job(name)
        wanted = job.spec.parallelism or 1
        self._start_pods(job)
        resumed = tuple(replace(c, status="False") if c.type == "Suspended" else c for c in job.status.conditions)
        start = job.status.start_time if resumed == job.status.conditions and job.status.start_time else self.time
        self.set_job_status(name, active=wanted, ready=wanted if ready else 0, start_time=start, conditions=resumed)

    def _start_pods(self, job: Job) -> None:
        meta = job.metadata
        labels = {key: meta.labels[key] for key in (keys.JOBSET_UID, keys.RESTART_ATTEMPT) if key in meta.labels}
        ref = OwnerReference(api_version="batch/v1", kind="Job", name=meta.name, uid=meta.uid, controller=True)
        pod = {"name": f"pod-of-{meta.uid}", "namespace": "ns", "uid": f"pod-of-{meta.uid}", "labels": labels}
        self.pod_labels[pod["uid"]] = labels
        pod["ownerReferences"] = [msgspec.to_builtins(ref)]
        self.put("pods", {"metadata": pod}, old_pod(msgspec.convert({"metadata": pod}, Owned)))

    def end_pods(self, job_uid: str) -> None:
        """The last pod of a Job is gone."""
        if f"pod-of-{job_uid}" in self.tables["pods"].live:
            self.drop("pods", f"pod-of-{job_uid}")

    def orphans(self) -> dict[str, dict[str, Any]]:
        """Pods whose Job is gone, as JSON by the UID of that."""
        here = {stored.obj.metadata.uid for stored in self.jobs.values()}
        pods = (stored.raw["metadata"] for stored in self.tables["pods"].live.values())
        return {uid: pod for pod in pods if (uid := pod["ownerReferences"][0]["uid"]) not in here}

    def doom(self, name: str, reason: str, message: str) -> None:
        """The Job is bound to fail, and its pods are being ended."""
        condition = {"type": "FailureTarget", "status": "True", "reason": reason, "message": message}
        status = msgspec.convert({"conditions": [condition | {"lastTransitionTime": self.time}]}, JobStatus)
        self.set_job_status(name, ready=0, conditions=(*self.job(name).status.conditions, *status.conditions))

    def finish(self, name: str, kind: str, reason: str = "", message: str = "") -> None:
        job = self.job(name)
        condition = {"type": kind, "status": "True", "reason": reason, "message": message}
        wanted = job.spec.parallelism or 1
        status = {
            "succeeded": wanted if kind == "Complete" else 0,
            "ready": 0,
            "startTime": job.status.start_time or self.time,
            "conditions": [condition | {"lastTransitionTime": self.time}],
        }
        self.set_job_status(name, **msgspec.structs.asdict(msgspec.convert(status, JobStatus)))

    def halt(self, name: str) -> None:
        """The pods of a suspended Job are gone, and the Job says so."""
        self.end_pods(self.job(name).metadata.uid)
        others = [c for c in self.job(name).status.conditions if c.type != "Suspended"]
        condition = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "lastTransitionTime": self.time}
        status = msgspec.convert({"conditions": [condition]}, JobStatus)
        self.set_job_status(name, active=0, ready=0, conditions=(*others, *status.conditions))

    def runnable(self, job: Job) -> bool:
        waits = job.spec.suspend or job.metadata.deletion_timestamp is not None
        return job.finished is None and not job.doomed and not waits

    def haltable(self, job: Job) -> bool:
        said = any(c.type == "Suspended" and c.status == "True" for c in job.status.conditions)
        return job.finished is None and job.spec.suspend and not (said and job.status.active == 0)

    def failed_pods(self, uids: set[str]) -> list[Pod]:
        """One pod of each of these Jobs that has a failed one; pods go with their Job."""
        return [
            msgspec.convert(
                {
                    "metadata": {"name": failed_pod(name), "labels": {keys.JOB_UID: uid}},
                    "status": {
                        "phase": "Failed",
                        "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}],
                    },
                },
                Pod,
            )
            for name, stored in self.jobs.items()
            if (uid := stored.obj.metadata.uid) in uids and (code := self.ledger.codes.get(uid)) is not None
        ]

    # The garbage collector

    def collect(self) -> None:
        """Everything in deletion goes, and what nobody owns any more; a JobSet after its children."""
        js = self.jobset
        uid = js.metadata.uid if js else ""
        doomed = js is not None and js.metadata.deletion_timestamp is not None
        for plural in ("jobs", "services", "persistentvolumeclaims", *GROUPS):
            for name, stored in list(self.tables[plural].live.items()):
                if name in self.stuck or (plural == "podgroups" and self._has_pods(name)):
                    continue
                owner = stored.obj.metadata.controller()
                ours = owner is not None and owner.kind == keys.KIND
                orphan = ours and (owner.uid != uid or doomed)
                if orphan or getattr(stored.obj.metadata, "deletion_timestamp", None):
                    self.end_pods(stored.obj.metadata.uid)
                    self.drop(plural, name)
        if doomed and not any(self._owned(stored.obj, uid) for stored in self.jobs.values()):
            self.drop("jobsets", "js")

    def _has_pods(self, group: str) -> bool:
        jobs = (stored.obj for stored in self.jobs.values())
        return any(job.status.active and job.spec.template.spec.pod_group == group for job in jobs)

    @staticmethod
    def _owned(obj: Any, uid: str) -> bool:
        owner = obj.metadata.controller()
        return owner is not None and owner.uid == uid

    # The user

    def edit(self, **spec: Any) -> None:
        js = self.jobset
        assert js is not None
        changed = replace(js.spec, **spec)
        if changed != js.spec:
            meta = replace(js.metadata, generation=js.metadata.generation + 1)
            self.put("jobsets", self.tables["jobsets"].live["js"].raw, replace(js, spec=changed, metadata=meta))

    def break_label(self, name: str, key: str, value: str) -> None:
        stored = self.jobs[name]
        meta = stored.obj.metadata
        self.ledger.broken.add(meta.uid)
        job = replace(stored.obj, metadata=replace(meta, labels={**meta.labels, key: value}))
        self.put("jobs", merge(stored.raw, {"metadata": {"labels": {key: value}}}), job)

    def intrude(self, name: str, *, owner: tuple[str, str] | None, labels: dict[str, str] | None) -> None:
        """A Job of somebody else, or (owner is the JobSet) one that no plan asked for."""
        refs = []
        if owner is not None:
            kind, uid = owner
            refs = [OwnerReference(api_version=keys.API_VERSION, kind=kind, name="js", uid=uid, controller=True)]
        meta = {"name": name, "namespace": "ns", "uid": self.uid(), "labels": labels or {}}
        raw = _defaulted({"metadata": meta, "spec": {"template": {"spec": {}}}})
        job = msgspec.convert(raw, Job)
        if labels is None:
            self.tables["jobs"].hidden.add(name)
        self.put("jobs", raw, replace(job, metadata=replace(job.metadata, owner_references=tuple(refs))))


def failed_pod(job: str) -> str:
    """Name of the failed pod of a Job."""
    return f"{job}-0-x"


def _immutable(template: JSON) -> JSON:
    """What may not change in the pod template of a Job, suspended or not."""
    spec = {k: v for k, v in template["spec"].items() if k not in SCHEDULING}
    spec["containers"] = [{k: v for k, v in c.items() if k != "resources"} for c in spec.get("containers", [])]
    meta = {k: v for k, v in template["metadata"].items() if k not in {"labels", "annotations"}}
    return {**template, "metadata": meta, "spec": spec}


def _meta_of(new: Job, old: Job) -> Any:
    """Only labels and annotations of metadata can be patched."""
    return replace(old.metadata, labels=new.metadata.labels, annotations=new.metadata.annotations)


def _defaulted(raw: JSON) -> JSON:
    """What the API server adds to a Job: sizes, and the labels by which its controller finds its pods."""
    spec, meta = raw["spec"], raw["metadata"]
    template = spec["template"]
    pods = template.get("metadata") or {}
    labels = {
        **(pods.get("labels") or {}),
        "batch.kubernetes.io/controller-uid": meta["uid"],
        "batch.kubernetes.io/job-name": meta["name"],
        "controller-uid": meta["uid"],
        "job-name": meta["name"],
    }
    sizes = {"parallelism": spec.get("parallelism") or 1, "completions": spec.get("completions") or 1}
    return {
        **raw,
        "spec": {
            "completionMode": "NonIndexed",
            "suspend": False,
            **spec,
            **sizes,
            "template": {**template, "metadata": {**pods, "labels": labels}},
        },
    }


def _error(kind: type[ApiError], code: int, verb: str, message: str, reason: str = "") -> ApiError:
    return kind(code, Status(kind="Status", message=message, reason=reason), call=Call(verb, "/model"))


def _versioned(obj: Any, version: int) -> Any:
    """As of that version. An old pod is its own metadata."""
    if isinstance(obj, OldPod):
        return replace(obj, resource_version=str(version))
    return replace(obj, metadata=replace(obj.metadata, resource_version=str(version)))
