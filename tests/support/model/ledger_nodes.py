"""Which nodes may be to blame, and which are avoided: the part of the ledger that judges `failurePolicy.avoidNodes`."""

from typing import Any

from api import elastic, keys
from api.avoided_nodes import avoided_node_names
from api.batch import Job
from api.jobset import JobSet
from api.jobset_status import JobSetStatus
from api.policies import MAX_FAILED_NODES
from controllers.planning.elastic import REDUCED, RESIZED, RESTORED
from controllers.planning.maintenance import GATE, REASON, left_nodes
from kube.model.meta import find
from tests.support.model.ledger_status import Place


class NodeRules:
    """Rules about nodes that failed the set. Each Job has one node, and in exclusive placement one domain."""

    def _keeps_away(self, js: JobSet, job: Job) -> None:
        """A Job avoids nodes that the status says have failed, as many as the set allows, and no others."""
        names = avoided_node_names(job.metadata.annotations)
        wanted = js.failure_policy.avoid_nodes if self.gates["JobSetAvoidNodes"] else None
        failures = {node.name: node.failures for node in js.status.failed_nodes} if wanted else {}
        assert names <= failures.keys(), f"{job.metadata.name} avoids {names}"
        assert wanted is None or len(names) <= wanted.max_nodes
        assert wanted is None or all(failures[name] >= wanted.after_failures for name in names)
        self.domains = {node.domain for node in js.status.failed_nodes if node.name in names and node.domain}

    def keeps_away(self, job: dict[str, Any]) -> None:
        """Its pods have the terms that its annotation names; `job` was judged by `_keeps_away` just now."""
        names = avoided_node_names(job["metadata"].get("annotations") or {})
        affinity = job["spec"]["template"]["spec"].get("affinity") or {}
        required = affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
        terms = required.get("nodeSelectorTerms", [{}])
        assert all(_without(term, "matchFields") == names for term in terms), f"{terms} for {names}"
        assert all(_without(term, "matchExpressions") == self.domains for term in terms), f"{terms} for {self.domains}"

    @staticmethod
    def newly_left(old: JobSetStatus, new: JobSetStatus) -> set[tuple[str, str]]:
        """Nodes that the set has left by this status, each with the time of its newest pod that has to leave it."""
        before, after = (
            {(node.name, node.pods_until) for node in left_nodes(status) if node.moved} for status in (old, new)
        )
        return after - before

    def _moved(self, js: JobSet, new: JobSetStatus) -> bool:
        """Whether the set leaves nodes: at most once for each drain, and only if it asks for that. It costs nothing."""
        old, uid = js.status, js.metadata.uid
        restarts = new.restarts > old.restarts and new.last_restart and new.last_restart.reason == REASON
        suspended = find(old.conditions, keys.SUSPENDED)
        resumed = old.execution_attempts is None or (suspended is not None and suspended.status == "True")
        in_place = new.restarts == old.restarts and new.execution_attempts != old.execution_attempts and not resumed
        if not (restarts or in_place):
            return False
        assert self.gates[GATE] and js.failure_policy.maintenance and not js.spec.suspend  # noqa: PT018 -- one thing
        assert new.restarts_count_towards_max == old.restarts_count_towards_max, "a planned move counts"
        assert self.newly_left(old, new), "a planned move away from no node"
        # A set may end in the plan that moves it: its workers have used up their restarts.
        assert new.terminal_state or new.attempt_history == old.attempt_history, "a planned move is called a failure"
        self.moved[uid] = self.moved.get(uid, 0) + 1
        assert self.moved[uid] <= self.drains, f"{self.moved[uid]} moves for {self.drains} drains"
        return bool(restarts)

    def sized(self, js: JobSet) -> JobSet:
        """The set as a plan sees it: with the Jobs that it has now."""
        return js.with_current_replicas if self.gates[elastic.GATE] else js

    def _in_another_size(self, js: JobSet, new: JobSetStatus) -> bool:
        """Whether the set restarts, as planned, with another number of Jobs."""
        return self._made_smaller(js, new) or self._restored(js, new) or self._resized(js, new)

    def _made_smaller(self, js: JobSet, new: JobSetStatus) -> bool:
        """Whether the set continues with fewer Jobs, within its bounds and because some have no room. It costs nothing."""
        if new.last_restart is None or new.last_restart.reason != REDUCED:
            return False
        assert self.gates[elastic.GATE] and not js.spec.suspend  # noqa: PT018 -- one thing
        assert self.without_room(), "smaller although all pods have room"
        assert new.restarts_count_towards_max == js.status.restarts_count_towards_max, "a planned restart counts"
        assert new.attempt_history == js.status.attempt_history, "a planned restart is called a failure"
        now, rjobs = {entry.name: entry.replicas for entry in new.reduced_replicas}, js.spec.replicated_jobs
        assert all(r.elastic.min <= now[r.name] <= r.replicas for r in rjobs if r.name in now), (
            f"{now} is out of bounds"
        )
        assert any(now.get(r.name, r.replicas) < r.replicas for r in rjobs), "a planned restart that changes nothing"
        return True

    def place_of(self, job: Job) -> Place:
        """The place that the labels of a new Job give it."""
        owner, labels = job.metadata.controller(), job.metadata.labels
        assert owner is not None
        return Place(
            owner.uid,
            labels[keys.REPLICATED_JOB_NAME],
            int(labels[keys.JOB_INDEX]),
            int(labels[keys.RESTART_ATTEMPT]),
            int(labels.get(keys.JOB_RESTART_ATTEMPT, "0")),
        )

    def _holds_place(self, js: JobSet, place: Place, job: Job) -> None:
        """A placeholder is of a Job that the set goes without, while all others are ready, and of no attempt that runs."""
        name, sizes = job.metadata.name, {entry.name: entry.replicas for entry in js.status.reduced_replicas}
        assert self.gates[elastic.GATE] and not (js.spec.suspend or js.status.terminal_state), f"{name} holds a place"  # noqa: PT018 -- one thing
        assert place.replicated_job in sizes, f"{name} holds a place of a set that has all its Jobs"
        assert place.index >= sizes[place.replicated_job], f"{name} holds the place of a Job that runs"
        assert place.attempt == js.status.restarts - 1, f"{name} is of attempt {place.attempt}"
        assert not job.spec.suspend, f"{name} holds no place"

    def note_sizes(self, js: JobSet) -> None:
        """Remember the numbers of Jobs that the user has asked for, one after the other."""
        sizes, asked = (
            tuple(rjob.replicas for rjob in js.spec.replicated_jobs),
            self.sizes.setdefault(js.metadata.uid, []),
        )
        if asked[-1:] != [sizes]:
            asked.append(sizes)

    def _resized(self, js: JobSet, new: JobSetStatus) -> bool:
        """Whether the set restarts with another number of Jobs, which the user wants. It costs nothing."""
        if new.last_restart is None or new.last_restart.reason != RESIZED:
            return False
        assert self.gates[elastic.GATE] and self.gates["ElasticJobSet"] and not js.spec.suspend  # noqa: PT018 -- one thing
        assert new.restarts_count_towards_max == js.status.restarts_count_towards_max, "a planned restart counts"
        assert new.attempt_history == js.status.attempt_history, "a planned restart is called a failure"
        self.resizes[js.metadata.uid] = self.resizes.get(js.metadata.uid, 0) + 1
        sizes = len(self.sizes[js.metadata.uid])
        assert self.resizes[js.metadata.uid] < sizes, f"{self.resizes[js.metadata.uid]} restarts for {sizes} sizes"
        return True

    def _restored(self, js: JobSet, new: JobSetStatus) -> bool:
        """Whether the set continues with more Jobs, as many as there is room for. It costs nothing."""
        if new.last_restart is None or new.last_restart.reason != RESTORED:
            return False
        assert self.gates[elastic.GATE] and not js.spec.suspend  # noqa: PT018 -- one thing
        assert new.restarts_count_towards_max == js.status.restarts_count_towards_max, "a planned restart counts"
        assert new.attempt_history == js.status.attempt_history, "a planned restart is called a failure"
        before, now = ({entry.name: entry.replicas for entry in of.reduced_replicas} for of in (js.status, new))
        assert all(size >= before[name] for name, size in now.items()), f"{before} become {now}"
        assert now != before, "a planned restart that changes nothing"
        return True

    def _failed_nodes(self, js: JobSet, new: JobSetStatus) -> None:
        """A node fails a set with a decision about a Job that failed on it, and is forgotten later."""
        before = {node.name: node.failures for node in js.status.failed_nodes}
        after = {node.name: node for node in new.failed_nodes}
        risen = {name for name, node in after.items() if node.failures != before.get(name, 0)}
        assert len(after) == len(new.failed_nodes) <= MAX_FAILED_NODES
        assert [node.last_time for node in new.failed_nodes] == sorted(node.last_time for node in new.failed_nodes)
        assert all(after[name].failures in {before.get(name, 0) + 1, 1} for name in risen), f"{before} become {after}"
        wanted, blamed = js.failure_policy.avoid_nodes, self._to_blame(js)
        assert not risen or (self.gates["JobSetAvoidNodes"] and wanted is not None), f"{risen} are to blame"
        assert risen <= blamed, f"{risen - blamed} are to blame without a reason"
        by_domain = (
            wanted is not None and wanted.scope == "Domain" and keys.EXCLUSIVE_TOPOLOGY in js.metadata.annotations
        )
        for name, node in after.items():
            domain = ("rack", f"rack-of-{name.removeprefix('node-of-')}") if by_domain else ("", "")
            assert (node.topology_key, node.domain) == domain, f"{name} is in {node.domain}"

    def _to_blame(self, js: JobSet) -> set[str]:
        """The nodes of failed Jobs that the policy may blame: they failed the pod, or its code or reason says so."""
        wanted, lost, found = js.failure_policy.avoid_nodes, self.lost(), set()
        for uid in self.failed_in(js):
            code = self.codes.get(uid)
            by_code = wanted and wanted.on_exit_codes and code in wanted.on_exit_codes.values
            by_reason = wanted and wanted.on_pod_reasons and code == EVICTED
            if uid in lost or by_code or by_reason:
                at = self.places[uid]
                found.add(f"node-of-{js.metadata.name}-{at.replicated_job}-{at.index}")
        return found


EVICTED = 5
"""Exit code of the pods that end with the reason Evicted."""


def _without(term: dict[str, Any], kind: str) -> set[str]:
    """The values that a term refuses."""
    wants = term.get(kind, [])
    return {value for want in wants if want["operator"] == "NotIn" for value in want["values"]}
