"""The simulated API server with one JobSet in one namespace, and what everybody but its controller does there.

Every change of a kind goes into the log of that kind, in order: a watch is a place in that log, and a cache that is
behind is an earlier place. What the controller writes is shown to `tests.support.model.ledger`, which judges it;
nothing here does.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any

import msgspec
from msgspec.structs import replace

from api import keys
from api.avoided_nodes import avoided_node_names
from api.batch import Claim, Job, Service
from api.gang_status import StoredGroup, StoredWorkload
from api.jobset import JobSet
from api.leftovers import LeftoverPod
from api.pod import DetailedPod as Pod
from dev.simulator import group_rules, job_rules, job_status
from dev.simulator.api_server import FOREGROUND
from dev.simulator.patches import merge
from dev.simulator.selectors import parse
from dev.simulator.storage import Collection, Event, Item, JsonItem, Scope, Watcher
from kube.model.meta import JSON, seconds_between
from tests.support.model.failing_nodes import FailingNodes, node_of
from tests.support.model.job_nodes import node_of_job, pod_place
from tests.support.model.ledger import Ledger
from tests.support.model.ledger_nodes import EVICTED

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
NS = "ns"
KINDS = {"jobsets": JobSet, "jobs": Job, "services": Service, "persistentvolumeclaims": Claim}
GROUPS = {"workloads": StoredWorkload, "compositepodgroups": StoredGroup, "podgroups": StoredGroup}
"""What is watched beside `KINDS` where sets have groups."""
RECORDS: dict[str, Callable[[JSON], Any]] = {
    **{plural: partial(msgspec.convert, type=kind) for plural, kind in (KINDS | GROUPS).items()},
    "pods": partial(msgspec.convert, type=LeftoverPod),
    "nodes": node_of,
}
"""What caches hold. One pod stands for all pods of a Job; they are watched where a large set restarts."""
WATCHED = {"jobs": Scope(labels=parse(keys.JOBSET_NAME))}
"""What the controller watches of a kind, if not everything."""


@dataclass(frozen=True, eq=False)
class Stored(JsonItem):
    """One version of an object. `record` makes of it what caches hold."""

    record: Callable[[JSON], Any]

    @cached_property
    def obj(self) -> Any:
        return self.record(self.content)

    def at(self, version: int) -> "Stored":
        return Stored(super().at(version).content, self.record)


@dataclass(slots=True)
class Table:
    """The objects of a kind by name, and what the watch of the controller has delivered."""

    live: dict[str, Stored] = field(default_factory=dict)
    log: list[Event] = field(default_factory=list)

    def follow(self, collection: Collection, watched: Scope) -> None:
        collection.watch(Watcher(Scope(), self._keep))
        collection.watch(Watcher(watched, self.log.append))

    def _keep(self, event: Event) -> None:
        if event.kind == "DELETED":
            del self.live[event.item.key[1]]
        else:
            self.live[event.item.key[1]] = event.item

    def at(self, position: int) -> dict[str, Stored]:
        """What there was after that many entries of the log."""
        found: dict[str, Stored] = {}
        for event in self.log[:position]:
            name = event.item.key[1]
            if event.kind == "DELETED":
                found.pop(name, None)
            else:
                found[name] = event.item
        return found


class Server(FailingNodes):
    """The state of the namespace. `old` is a server before 1.36: a Job that has started keeps its pod template."""

    def __init__(self, ledger: Ledger, *, old: bool = False) -> None:
        super().__init__()
        self.before_1_36 = old
        self.ledger = ledger
        self.seconds = 0
        self.stuck: set[str] = set()
        self.tables = {plural: Table() for plural in RECORDS}
        for plural, table in self.tables.items():
            table.follow(self.storage[plural], WATCHED.get(plural, Scope()))
        self.tables["agents"] = self.tables["pods"]  # which have two watches

    @property
    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.seconds)

    @property
    def version(self) -> int:
        return self.storage.version

    @property
    def jobset(self) -> JobSet | None:
        stored = self.tables["jobsets"].live.get("js")
        return stored.obj if stored else None

    @property
    def jobs(self) -> dict[str, Stored]:
        return self.tables["jobs"].live

    def job(self, name: str) -> Job:
        return self.jobs[name].obj

    # How objects are kept, and who looks at what is written

    def timestamp(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def item(self, plural: str, content: JSON) -> Stored:
        return Stored(content, RECORDS[plural])

    def check_new(self, plural: str, new: JSON) -> None:
        super().check_new(plural, new)
        if plural == "jobs":
            self.ledger.job_created(RECORDS[plural](new), self.orphans(ended=False))
            self.ledger.keeps_away(new)
        elif plural in GROUPS:
            self.ledger.group_created(RECORDS[plural](new))

    def check_change(self, plural: str, old: Item, new: JSON, sub: str) -> None:
        super().check_change(plural, old, new, sub)
        if plural == "jobs" and not sub:
            self.ledger.job_patched(old.obj, RECORDS[plural](new))
        elif plural == "jobsets" and sub:
            self.ledger.status_written(old.obj, RECORDS[plural](new).status, self.now)
        elif plural in GROUPS:
            self.ledger.group_changed(old.obj)
        elif plural == "pods":
            self.check_pod_release(old)

    def check_deletion(self, plural: str, item: Item) -> None:
        if plural == "jobs":
            self.ledger.job_deleted(item.obj)
        elif plural in GROUPS:
            self.ledger.group_changed(item.obj)
        elif plural == "pods":
            self.check_pod_deletion(item)
        else:
            assert plural == "jobsets", f"{plural} {item.key[1]} is deleted"
            self.ledger.jobset_deleted(item.obj, self.now)

    def after_write(self, plural: str, item: Item) -> None:
        self.ledger.changed(plural, item.obj)

    def remove(self, plural: str, item: Item, *, foreground: bool) -> Item | None:
        """A PodGroup stays until none of its pods is left."""
        return super().remove(plural, item, foreground=foreground or plural == "podgroups")

    # The Job controller

    def run(self, name: str, *, ready: bool) -> None:
        """Pods of a Job that may run do run."""
        job = self.jobs[name].content
        self._start_pods(job)
        wanted = 0 if self.nodeless(job) or not ready else job_status.pods_wanted(job)
        self._set_status(job, job_status.start_status(job, self.timestamp(), ready=wanted))

    def pend(self, name: str) -> None:
        """The pod of a Job that may run is another one from now on, and waits for its image."""
        job = self.jobs[name].content
        self.end_pods(self.jobs[name].uid)
        self._start_pods(job, "Pending")
        self._set_status(job, job_status.start_status(job, self.timestamp(), ready=0))

    def _start_pods(self, job: JSON, phase: str = "Running") -> None:
        old = self.pod_of(job["metadata"]["uid"])
        if old is None:
            self._create_pod(job, phase)
        elif old.content["status"]["phase"] == "Pending" and old.content["spec"]["nodeName"]:
            self._set_phase(old, phase)

    def _create_pod(self, job: JSON, phase: str) -> None:
        meta = job["metadata"]
        ours = keys.JOBSET_NAME, keys.JOBSET_UID, keys.RESTART_ATTEMPT
        labels = {key: meta["labels"][key] for key in ours if key in meta["labels"]} | {keys.JOB_UID: meta["uid"]}
        ref = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
        pod = {"name": f"pod-of-{meta['uid']}", "namespace": NS, "uid": self.new_uid(), "labels": labels}
        pod |= {"ownerReferences": [ref], "creationTimestamp": self.timestamp(), "finalizers": [keys.JOB_TRACKING]}
        spec, pod["annotations"] = pod_place(job)
        if self.nodeless(job):
            spec["nodeName"], phase = "", "Pending"
        elif spec["nodeName"] not in self.failed_nodes:
            self.add_node(spec["nodeName"])
        said = [] if spec["nodeName"] else [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
        self.put("pods", {"metadata": pod, "spec": spec, "status": {"phase": phase, "conditions": said}})

    def _set_phase(self, pod: Stored, phase: str) -> None:
        self.put("pods", {**pod.content, "status": {**pod.content["status"], "phase": phase}})

    def pod_of(self, job_uid: str) -> Stored | None:
        """The pod of a Job, if there is one."""
        return self.tables["pods"].live.get(f"pod-of-{job_uid}")

    def nodeless(self, job: JSON) -> bool:
        """Whether no node has room for the pods of a Job, or they keep away from the only one that has.

        The nodes of placeholders are for the Jobs with the lowest missing indexes, so a placeholder waits for these.
        """
        meta = job["metadata"]
        names = [meta["name"]]
        if keys.PLACEHOLDER in (meta.get("labels") or {}):
            prefix, _, index = meta["name"].rpartition("-")
            names = [f"{prefix}-{number}" for number in range(int(index) + 1)]
        avoided = avoided_node_names(meta.get("annotations") or {})
        return meta["uid"] in self.no_room or not avoided.isdisjoint(map(node_of_job, names))

    def waits_for_a_node(self, job_uid: str) -> bool:
        """Whether the pods of a Job find no node, and have waited for one for as long as the set wants."""
        pod, wanted = self.pod_of(job_uid), self.jobset and self.jobset.failure_policy.avoid_nodes
        if pod is None or not wanted or pod.content["spec"]["nodeName"]:
            return False
        return seconds_between(pod.meta["creationTimestamp"], self.timestamp()) >= wanted.drop_after_seconds

    def pending_pods(self) -> list[Pod]:
        """The pods that do not run. The ledger is told which of them are late."""
        pods = [pod for pod in self.tables["pods"].live.values() if pod.content["status"]["phase"] == "Pending"]
        policy = self.jobset and self.jobset.spec.failure_policy
        limit = policy.start_timeout_seconds if policy else None
        for pod in pods if limit is not None and self.ledger.gates["JobSetStartTimeout"] else ():
            if seconds_between(pod.meta["creationTimestamp"], self.timestamp()) >= limit:
                self.ledger.late.add(pod.meta["ownerReferences"][0]["uid"])
        return [msgspec.convert(pod.content, Pod) for pod in pods]

    def end_pods(self, job_uid: str) -> None:
        """The last pod of a Job is gone, or is being deleted if its node does not end it; the next call may."""
        pod = self.pod_of(job_uid)
        if pod is None:
            return
        node, deleting = pod.content["spec"]["nodeName"], "deletionTimestamp" in pod.meta
        if node not in self.failed_nodes or (deleting and self.off(node)):
            self.drop("pods", pod.key[1])
        elif not deleting:
            self.mark_deleted("pods", pod, [])

    def orphans(self, *, ended: bool = True) -> dict[str, JSON]:
        """Metadata of pods whose Job is gone, by the UID of that; with those that have `ended`, or without."""
        here = {stored.uid for stored in self.jobs.values()}
        phases = set() if ended else {"Succeeded", "Failed"}
        pods = (
            stored for stored in self.tables["pods"].live.values() if stored.content["status"]["phase"] not in phases
        )
        return {uid: pod.meta for pod in pods if (uid := pod.meta["ownerReferences"][0]["uid"]) not in here}

    def doom(self, name: str, reason: str, message: str) -> None:
        """The Job is bound to fail, and its pods are being ended."""
        job = self.jobs[name].content
        self._set_status(job, job_status.failing_status(job, self.timestamp(), reason, message))

    def finish(self, name: str, kind: str, reason: str = "", message: str = "") -> None:
        job, pod = self.jobs[name].content, self.pod_of(self.jobs[name].uid)
        self._set_status(job, job_status.end_status(job, self.timestamp(), kind, reason, message))
        if pod is not None and pod.content["spec"]["nodeName"] not in self.failed_nodes:
            self._set_phase(pod, "Succeeded" if kind == "Complete" else "Failed")

    def halt(self, name: str) -> None:
        """The pods of a suspended Job are gone, and the Job says so."""
        job = self.jobs[name]
        self.end_pods(job.uid)
        self._set_status(job.content, job_status.suspended_status(job.content, self.timestamp()))

    def _set_status(self, job: JSON, status: JSON) -> None:
        self.put("jobs", {**job, "status": status})

    def runnable(self, job: Job) -> bool:
        raw = self.jobs[job.metadata.name].content
        return job_status.may_run(raw) and not job_status.has_condition(raw, "FailureTarget")

    def haltable(self, job: Job) -> bool:
        raw = self.jobs[job.metadata.name].content
        said = job_status.is_suspended(raw) and not raw["status"].get("active")
        return not job_status.is_finished(raw) and raw["spec"]["suspend"] and not said

    def failed_pods(self, uids: set[str]) -> list[Pod]:
        """One pod of each of these Jobs that has a failed one; pods go with their Job."""
        codes = ((stored.content, self.ledger.codes.get(stored.uid)) for stored in self.jobs.values())
        return [_failed(job, code) for job, code in codes if job["metadata"]["uid"] in uids and code is not None]

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
                ours = [ref["uid"] for ref in stored.meta.get("ownerReferences") or () if ref["kind"] == keys.KIND]
                orphan = ours and (ours != [uid] or doomed)
                if orphan or "deletionTimestamp" in stored.meta:
                    self.end_pods(stored.uid)
                    if self.pod_of(stored.uid) is None:
                        self.drop(plural, name)
        if doomed and not any(plural == "jobs" for plural, _ in self.storage.owned_by(uid)):
            self.drop("jobsets", "js")

    def _has_pods(self, group: str) -> bool:
        return group_rules.has_pods(group, (stored.content for stored in self.jobs.values()))

    # People, and others who do what they like

    def new_jobset(self, js: JobSet) -> None:
        """The user creates it."""
        body = msgspec.to_builtins(js)
        meta = {"name": js.metadata.name, "annotations": js.metadata.annotations}
        self.create("jobsets", NS, {"metadata": meta, "spec": body["spec"]})

    def edit(self, **spec: Any) -> None:
        """The user changes the spec."""
        assert self.jobset is not None
        changed = msgspec.to_builtins(replace(self.jobset.spec, **spec))
        key = NS, "js"
        self.update("jobsets", key, {**self.get("jobsets", key).body(), "spec": changed})

    def drop(self, plural: str, name: str) -> None:
        """It is gone at once, and its pods are not."""
        self.storage.drop(plural, (NS, name))

    def lose_job(self, name: str) -> None:
        """Somebody else deletes it in the background."""
        self.ledger.deleted_by_others.add(self.job(name).metadata.uid)
        self.drop("jobs", name)

    def terminate(self, plural: str, name: str) -> None:
        """Somebody deletes it in the foreground."""
        self.mark_deleted(plural, self.get(plural, (NS, name)), [FOREGROUND])

    def lose(self, plural: str, name: str) -> None:
        """Somebody deletes a group."""
        self.remove(plural, self.get(plural, (NS, name)), foreground=False)

    def break_label(self, name: str, key: str, value: str) -> None:
        stored = self.jobs[name]
        self.ledger.broken.add(stored.uid)
        self.put("jobs", merge(stored.content, {"metadata": {"labels": {key: value}}}))

    def hold(self, name: str) -> None:
        """Somebody puts a finalizer on it."""
        self.put("jobs", merge(self.jobs[name].content, {"metadata": {"finalizers": ["example.com/mine"]}}))

    def intrude(self, name: str, *, owner: tuple[str, str] | None, labels: dict[str, str] | None) -> None:
        """A Job of somebody else, or (owner is the JobSet) one that no plan asked for."""
        refs = []
        if owner is not None:
            kind, uid = owner
            refs = [{"apiVersion": keys.API_VERSION, "kind": kind, "name": "js", "uid": uid, "controller": True}]
        meta = {"name": name, "namespace": NS, "uid": self.new_uid(), "labels": labels or {}, "ownerReferences": refs}
        self.put("jobs", job_rules.with_defaults({"metadata": meta, "spec": {"template": {"spec": {}}}}))


def failed_pod(job: str) -> str:
    """Name of the failed pod of a Job."""
    return f"{job}-0-x"


def _failed(job: JSON, code: int) -> Pod:
    ended = {"name": "main", "state": {"terminated": {"exitCode": code}}}
    status = {"phase": "Failed", "containerStatuses": [ended], "reason": "Evicted" if code == EVICTED else ""}
    spec, annotations = pod_place(job)
    meta = {"name": failed_pod(job["metadata"]["name"]), "labels": {keys.JOB_UID: job["metadata"]["uid"]}}
    return msgspec.convert({"metadata": {**meta, "annotations": annotations}, "spec": spec, "status": status}, Pod)
