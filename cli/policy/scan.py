"""Runs `jobset policy scan`: lists the stored JobSets that policies would refuse if all had the action Deny."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from api.features import FeatureGates
from authoring.findings import Report
from authoring.policies import FiledObject, judged_of, load, warn_of_conflicts
from cli import session
from cli.check.text import write_faults
from cli.output import DATA_FORMATS, columns, dump
from cli.policy.stored import Namespaces, NoNamespaceError, stored_exceptions, stored_policies
from controllers.resources import JOBSETS
from kube.clock import now
from kube.model.field import SPEC
from kube.model.jsontree import dig
from kube.options import COMMAND_TIMEOUT
from policy.audit import unexcused_violations
from policy.evaluate import Violation, rules_in_force
from policy.judged import JudgedJobSet
from policy.types import JobSetPolicy

MAX_SHOWN = 1000
"""At most this many violations are written. The number of further violations is written, too."""
_GATES = FeatureGates({"AllAlpha": True})
"""All feature gates are on, since those of the manager are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(session.ClusterFlags):
    """The namespace and the form of the output. `policies`: files of policies; empty for those of the cluster."""

    policies: Sequence[str] = ()
    everywhere: bool = False
    output: str = "table"


@dataclass(slots=True)
class ScanResult:
    """The result of a scan.

    - `locations`: file and line of each rule of policies in files, by policy and rule.
    - `refused_count`: the number of JobSets that would be refused if all policies had the action Deny.
    - `refused_now_count`: the number of JobSets that the policies with the action Deny would refuse.
    - `shown_violations`: the violations to write. `hidden_count`: the number of further violations.
    - `broken_counts`: the number of JobSets that break a rule, by policy and rule.
    - `actions`: the present actions of each policy.
    - `unreadable_count`: the number of JobSets that could not be decoded.
    """

    locations: Mapping[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    jobset_count: int = 0
    refused_count: int = 0
    refused_now_count: int = 0
    shown_violations: list[dict[str, Any]] = field(default_factory=list)
    hidden_count: int = 0
    broken_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    actions: dict[str, list[str]] = field(default_factory=dict)
    unreadable_count: int = 0

    def add(self, judged: JudgedJobSet, violations: Sequence[Violation]) -> None:
        """Add a JobSet with its violations, which no exception excuses."""
        self.refused_count += bool(violations)
        self.refused_now_count += any(violation.policy.spec.denies for violation in violations)
        self.broken_counts.update({(violation.policy.metadata.name, violation.rule) for violation in violations})
        for violation in violations:
            policy, rule = violation.policy.metadata.name, violation.rule
            self.actions[policy] = list(violation.policy.spec.validation_actions)
            if len(self.shown_violations) == MAX_SHOWN:
                self.hidden_count += 1
                continue
            meta, error = judged.js.metadata, violation.error
            self.shown_violations.append({
                "namespace": meta.namespace,
                "jobset": meta.name,
                "policy": policy,
                "rule": rule,
                "path": str(error.path),
                "message": error.complaint,
                "fix": error.fix,
                "actions": self.actions[policy],
                **self.location(policy, rule),
            })  # fmt: skip

    def location(self, policy: str, rule: str) -> dict[str, Any]:
        """The file and the line of a rule; empty for a policy of the cluster."""
        file, line = self.locations.get((policy, rule), ("", 0))
        return {"file": file, "line": line} if file else {}


@session.command("policy scan", verbs="list")
async def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the violations to `out`, and problems to `err`. Returns the exit code."""
    filed_policies = _load_policies(options.policies, err) if options.policies else []
    if filed_policies is None:
        return session.NOT_DONE
    async with session.connect(options) as connection:
        policies = [filed.value for filed in filed_policies] or await stored_policies(connection.client)
        namespace = None if options.everywhere else connection.namespace
        exceptions = await stored_exceptions(connection.client, namespace)
        namespaces, result = Namespaces(connection.client, policies), ScanResult(_rule_locations(filed_policies))
        async for obj in connection.client.pages(JOBSETS, namespace=namespace, timeout=COMMAND_TIMEOUT):
            name = str(dig(obj, "metadata", "namespace"))
            try:
                namespace_of_jobset = await namespaces.get(name)
            except NoNamespaceError:
                continue  # namespace and JobSet have been deleted meanwhile
            result.jobset_count += 1
            if judged := judged_of(obj, _GATES):
                exceptions_there = exceptions.get(name, [])
                violations = unexcused_violations(policies, judged, namespace_of_jobset, exceptions_there, now())
                result.add(judged, violations)
            else:
                result.unreadable_count += 1
        if namespace and not result.jobset_count:
            await session.refuse_missing_namespace(connection)
    _write(result, options.output, out)
    if result.unreadable_count:
        err.write(f"jobset policy scan: JobSets that cannot be read: {result.unreadable_count}\n")
    return session.NOT_DONE if result.unreadable_count else session.FAILED if result.refused_count else session.DONE


def _load_policies(names: Sequence[str], err: TextIO) -> list[FiledObject[JobSetPolicy]] | None:
    """The policies in files, each with its place in the file; None if they have faults, which are written to `err`."""
    report = Report()
    policies, _ = load(names, report)
    warn_of_conflicts(policies, report, _GATES)
    return None if write_faults("policy scan", report, err) else policies


def _rule_locations(policies: Sequence[FiledObject[JobSetPolicy]]) -> dict[tuple[str, str], tuple[str, int]]:
    """The file and the line of each rule, by the names of policy and rule."""
    return {
        (filed.value.metadata.name, rule.name): filed.line(SPEC.at("rules", rule.name))
        for filed in policies
        for rule, _ in rules_in_force(filed.value)
    }


def _write(result: ScanResult, output: str, out: TextIO) -> None:
    counts = [
        {
            "policy": policy,
            "rule": rule,
            "actions": result.actions[policy],
            "jobsets": n,
            **result.location(policy, rule),
        }
        for (policy, rule), n in sorted(result.broken_counts.items())
    ]
    if output in DATA_FORMATS:
        body = {"jobsets": result.jobset_count, "refused": result.refused_count, "refusedNow": result.refused_now_count}
        lists = {"counts": counts, "violations": result.shown_violations, "leftOut": result.hidden_count}
        out.write(dump({**body, **lists}, output))
        return
    if counts:
        location_columns = ("where",) if result.locations else ()
        _write_rows(("policy", "rule", "actions", "jobsets", *location_columns), counts, out)
        out.write("\n")
        _write_rows(("namespace", "jobset", "rule", *location_columns, "path", "message"), result.shown_violations, out)
    if result.hidden_count:
        out.write(f"and {result.hidden_count} more\n")
    counts_text = f"{result.refused_now_count} of {result.jobset_count} JobSets would be refused now"
    out.write(f"{counts_text}, {result.refused_count - result.refused_now_count} more if all policies denied\n")


def _write_rows(names: tuple[str, ...], rows: Sequence[Mapping[str, Any]], out: TextIO) -> None:
    """Write a table. The column `where` has file and line of the rule, the column `message` the fix, too."""
    texts = [
        {
            **row,
            "where": f"{row.get('file')}:{row.get('line')}",
            "actions": ",".join(row["actions"]),
            "message": f"{row.get('message')}; {row.get('fix')}".removesuffix("; "),
        }
        for row in rows
    ]
    out.writelines(columns([tuple(map(str.upper, names)), *(tuple(str(row[key]) for key in names) for row in texts)]))
