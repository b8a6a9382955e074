"""Audits: collects the violations of policies by stored JobSets, with bounded memory. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from kube.model.field import shorten
from policy.evaluate import OnFailure, Violation, matches, violations
from policy.exception_types import JobSetPolicyException
from policy.exceptions import excused_rules
from policy.judged import JudgedJobSet, Namespace
from policy.status_types import MAX_SHOWN, AuditedViolation, PolicyAudit
from policy.types import JobSetPolicy

MAX_RESULTS_PER_REPORT: Final = 100
"""At most this many results are kept for one report."""
MAX_REPORTS: Final = 5_000
"""At most this many reports are kept, one for each namespace and policy."""
MAX_MESSAGE_LENGTH: Final = 256
"""At most this many characters of the text of one violation are kept."""


def unexcused_violations(
    policies: Sequence[JobSetPolicy],
    judged: JudgedJobSet,
    namespace: Namespace,
    exceptions: Iterable[JobSetPolicyException],
    at: datetime,
    on_failure: OnFailure | None = None,
) -> list[Violation]:
    """The violations by a stored JobSet of rules that no exception excuses at that time."""
    excused = excused_rules(exceptions, policies, judged, namespace, at)
    return violations(
        policies,
        judged,
        namespace,
        is_excepted=lambda policy, rule: (policy.metadata.name, rule) in excused,
        on_failure=on_failure,
    )


@dataclass(slots=True)
class FirstResults:
    """Keeps the first `limit` of the added results in sort order, and counts all results."""

    limit: int
    count: int = 0
    _kept_results: list[AuditedViolation] = field(default_factory=list)

    def add(self, result: AuditedViolation) -> None:
        """Count a result, and keep it if it is among the first."""
        self.count += 1
        self._kept_results.append(result)
        if len(self._kept_results) >= 2 * self.limit:
            self._kept_results = self.results

    @property
    def results(self) -> list[AuditedViolation]:
        """The first results, sorted."""
        return sorted(self._kept_results, key=msgspec.structs.astuple)[: self.limit]


@dataclass(slots=True)
class _PolicyTally:
    jobset_count: int = 0
    unchecked_rules: int = 0
    first_results: FirstResults = field(default_factory=lambda: FirstResults(MAX_SHOWN))


class Audit:
    """Collects violations of these policies by JobSets. `reports`: whether to keep results by namespace, too."""

    def __init__(self, policies: Sequence[JobSetPolicy], *, reports: bool = False) -> None:
        self.policies = policies
        self._tallies = {policy.metadata.name: _PolicyTally() for policy in policies}
        self._max_reports = MAX_REPORTS if reports else 0
        self.reports: dict[tuple[str, str], FirstResults] = {}
        """Results by namespace and policy."""

    def add(
        self, judged: JudgedJobSet, namespace: Namespace, exceptions: Iterable[JobSetPolicyException], at: datetime
    ) -> None:
        """Judge one JobSet, and add its violations: one for each rule of a policy."""
        meta = judged.js.metadata
        for policy in self.policies:
            self._tallies[policy.metadata.name].jobset_count += matches(policy, meta.labels, namespace)

        def record_failure(policy: JobSetPolicy, _: str, __: Exception) -> None:
            self._tallies[policy.metadata.name].unchecked_rules += 1

        messages: dict[tuple[str, str], str] = {}
        for violation in unexcused_violations(self.policies, judged, namespace, exceptions, at, record_failure):
            text = f"{violation.error.path}: {violation.error.complaint}"
            messages.setdefault((violation.policy.metadata.name, violation.rule), shorten(text, MAX_MESSAGE_LENGTH))
        for (name, rule), message in messages.items():
            result = AuditedViolation(namespace=meta.namespace, name=meta.name, rule=rule, message=message)
            self._tallies[name].first_results.add(result)
            key = meta.namespace, name
            if key in self.reports or len(self.reports) < self._max_reports:
                self.reports.setdefault(key, FirstResults(MAX_RESULTS_PER_REPORT)).add(result)

    def result(self, policy: str, at: str) -> PolicyAudit:
        """The audit of one policy, in the form of its status."""
        tally = self._tallies[policy]
        return PolicyAudit(
            time=at,
            jobsets=tally.jobset_count,
            violations=tally.first_results.count,
            unchecked=tally.unchecked_rules,
            first=tuple(tally.first_results.results),
        )


def audit_json(audit: PolicyAudit) -> dict[str, object]:
    """The audit as JSON with every field, so that a merge patch replaces an earlier audit completely."""
    fields = {name: getattr(audit, name) for name in PolicyAudit.__struct_fields__}
    return {**fields, "first": [msgspec.to_builtins(violation) for violation in audit.first]}
