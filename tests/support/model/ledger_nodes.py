"""Which nodes may be to blame, and which are avoided: the part of the ledger that judges `failurePolicy.avoidNodes`."""

from __future__ import annotations

from typing import Any

from api import keys
from api.avoided_nodes import avoided_by, policy_of
from api.batch import Job
from api.jobset import JobSet
from api.jobset_status import JobSetStatus
from api.policies import MOST_FAILED_NODES


class NodeRules:
    """Rules about nodes that failed the set. Each Job has one node, and in exclusive placement one domain."""

    def _keeps_away(self, js: JobSet, job: Job) -> None:
        """A Job avoids nodes that the status says have failed, as many as the set allows, and no others."""
        names = avoided_by(job.metadata.annotations)
        wanted = policy_of(js) if self.gates["JobSetAvoidNodes"] else None
        failures = {node.name: node.failures for node in js.status.failed_nodes} if wanted else {}
        assert names <= failures.keys(), f"{job.metadata.name} avoids {names}"
        assert wanted is None or len(names) <= wanted.max_nodes
        assert wanted is None or all(failures[name] >= wanted.after_failures for name in names)
        self.domains = {node.domain for node in js.status.failed_nodes if node.name in names and node.domain}

    def keeps_away(self, job: dict[str, Any]) -> None:
        """Its pods have the terms that its annotation names; `job` was judged by `_keeps_away` just now."""
        names = avoided_by(job["metadata"].get("annotations") or {})
        affinity = job["spec"]["template"]["spec"].get("affinity") or {}
        required = affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
        terms = required.get("nodeSelectorTerms", [{}])
        assert all(_without(term, "matchFields") == names for term in terms), f"{terms} for {names}"
        assert all(_without(term, "matchExpressions") == self.domains for term in terms), f"{terms} for {self.domains}"

    def _failed_nodes(self, js: JobSet, new: JobSetStatus) -> None:
        """A node fails a set with a decision about a Job that failed on it, and is forgotten later."""
        before = {node.name: node.failures for node in js.status.failed_nodes}
        after = {node.name: node for node in new.failed_nodes}
        risen = {name for name, node in after.items() if node.failures != before.get(name, 0)}
        assert len(after) == len(new.failed_nodes) <= MOST_FAILED_NODES
        assert [node.last_time for node in new.failed_nodes] == sorted(node.last_time for node in new.failed_nodes)
        assert all(after[name].failures in {before.get(name, 0) + 1, 1} for name in risen), f"{before} become {after}"
        wanted, blamed = policy_of(js), self._to_blame(js)
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
        wanted, found = policy_of(js), set()
        for uid in self.failed_in(js):
            code = self.codes.get(uid)
            by_code = wanted and wanted.on_exit_codes and code in wanted.on_exit_codes.values
            by_reason = wanted and wanted.on_pod_reasons and code == EVICTED
            if uid in self.lost_before or by_code or by_reason:
                at = self.places[uid]
                found.add(f"node-of-{js.metadata.name}-{at.replicated_job}-{at.index}")
        return found


EVICTED = 5
"""Exit code of the pods that end with the reason Evicted."""


def _without(term: dict[str, Any], kind: str) -> set[str]:
    """The values that a term refuses."""
    wants = term.get(kind, [])
    return {value for want in wants if want["operator"] == "NotIn" for value in want["values"]}
