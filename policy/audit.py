"""Violations by stored JobSets, whatever the actions of the policies: collected set by set, with bounded memory.

Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from kube.model.field import shorten
from policy.evaluate import Failed, Violation, matches, violations
from policy.exception_types import JobSetPolicyException
from policy.exceptions import excused_rules
from policy.judged import JudgedJobSet, Namespace
from policy.status_types import MAX_SHOWN, AuditedViolation, PolicyAudit
from policy.types import JobSetPolicy

MAX_OF_REPORT: Final = 100
"""Results of one report."""
MAX_REPORTS: Final = 5_000
"""Namespaces and policies that have a report of their own."""
MAX_MESSAGE: Final = 256
"""Characters of the text of one violation."""


def broken_rules(
    policies: Sequence[JobSetPolicy],
    judged: JudgedJobSet,
    namespace: Namespace,
    exceptions: Iterable[JobSetPolicyException],
    at: datetime,
    failed: Failed | None = None,
) -> list[Violation]:
    """The violations of a stored JobSet at that time, except those that exceptions in its namespace allow."""
    without = excused_rules(exceptions, policies, judged, namespace, at)
    return violations(
        policies,
        judged,
        namespace,
        excepted=lambda policy, rule: (policy.metadata.name, rule) in without,
        failed=failed,
    )


@dataclass(slots=True)
class First:
    """Keeps the first results by their order, whatever the order in which they are added; and counts all."""

    most: int
    count: int = 0
    _kept: list[AuditedViolation] = field(default_factory=list)

    def add(self, result: AuditedViolation) -> None:
        """Add a result, and drop those that are not among the first."""
        self.count += 1
        self._kept.append(result)
        if len(self._kept) >= 2 * self.most:
            self._kept = self.results

    @property
    def results(self) -> list[AuditedViolation]:
        """The first results, in order."""
        return sorted(self._kept, key=msgspec.structs.astuple)[: self.most]


@dataclass(slots=True)
class _OfPolicy:
    jobsets: int = 0
    unchecked: int = 0
    first: First = field(default_factory=lambda: First(MAX_SHOWN))


class Audit:
    """Violations of these policies by JobSets. `reports`: keep results by namespace, too."""

    def __init__(self, policies: Sequence[JobSetPolicy], *, reports: bool = False) -> None:
        self.policies = policies
        self._found = {policy.metadata.name: _OfPolicy() for policy in policies}
        self._reports: dict[tuple[str, str], First] | None = {} if reports else None

    def add(
        self, judged: JudgedJobSet, namespace: Namespace, exceptions: Iterable[JobSetPolicyException], at: datetime
    ) -> None:
        """Judge one JobSet."""
        meta = judged.js.metadata
        for policy in self.policies:
            self._found[policy.metadata.name].jobsets += matches(policy, meta.labels, namespace)

        def record_failure(policy: JobSetPolicy, _: str, __: Exception) -> None:
            self._found[policy.metadata.name].unchecked += 1

        counts: dict[tuple[str, str], str] = {}
        for each in broken_rules(self.policies, judged, namespace, exceptions, at, record_failure):
            text = f"{each.error.path}: {each.error.complaint}"
            counts.setdefault((each.policy.metadata.name, each.rule), shorten(text, MAX_MESSAGE))
        for (name, rule), message in counts.items():
            result = AuditedViolation(namespace=meta.namespace, name=meta.name, rule=rule, message=message)
            self._found[name].first.add(result)
            self._report(name, result)

    def _report(self, policy: str, result: AuditedViolation) -> None:
        key = result.namespace, policy
        if self._reports is not None and (key in self._reports or len(self._reports) < MAX_REPORTS):
            self._reports.setdefault(key, First(MAX_OF_REPORT)).add(result)

    def result(self, policy: str, at: str) -> PolicyAudit:
        """The audit in the form of a policy's status."""
        found = self._found[policy]
        return PolicyAudit(
            time=at,
            jobsets=found.jobsets,
            violations=found.first.count,
            unchecked=found.unchecked,
            first=tuple(found.first.results),
        )

    @property
    def reports(self) -> Mapping[tuple[str, str], First]:
        """Results by namespace and policy."""
        return self._reports or {}


def as_written(audit: PolicyAudit) -> dict[str, object]:
    """The audit as JSON with every field, so that a merge patch replaces an earlier audit completely."""
    fields = {name: getattr(audit, name) for name in PolicyAudit.__struct_fields__}
    return {**fields, "first": [msgspec.to_builtins(each) for each in audit.first]}
