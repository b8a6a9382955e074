"""`jobset policy scan`: which stored JobSets policies would refuse if all of them denied. Reads; changes nothing.

Exit codes: 0 none, 1 some, 2 not all could be checked.
"""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TextIO

from api.features import FeatureGates
from authoring.findings import Report
from authoring.policies import FiledObject, judged_of, load, warn_of_conflicts
from cli import session
from cli.check.text import write_faults
from cli.output import FORMS, columns, dump
from cli.policy.stored import (
    Namespaces,
    NoNamespaceError,
    stored_exceptions,
    stored_jobsets,
    stored_policies,
)
from kube.clock import now
from kube.model.field import SPEC
from kube.model.jsontree import dig
from policy.audit import broken_rules
from policy.evaluate import Violation, rules_in_force
from policy.exception_types import JobSetPolicyException
from policy.judged import JudgedJobSet, Namespace
from policy.types import JobSetPolicy

MAX_SHOWN = 1000
"""Violations that are shown; the others are counted."""
_GATES = FeatureGates({"AllAlpha": True})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(session.Where):
    """`policies`: files and directories with policies; none: those of the cluster."""

    policies: Sequence[str] = ()
    everywhere: bool = False
    output: str = "table"


@dataclass(slots=True)
class ScanResult:
    """The result of a scan. `broken`: JobSets that break a rule, by policy and rule.

    `refused`: JobSets that would be refused if all policies denied; `refused_now`: those that a policy with Deny
    refuses. `actions`: the current actions of each policy.

    `locations`: file and line of each rule of policies in files, by policy and rule.
    """

    locations: Mapping[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    jobsets: int = 0
    refused: int = 0
    refused_now: int = 0
    shown: list[dict[str, Any]] = field(default_factory=list)
    left_out: int = 0
    broken: Counter[tuple[str, str]] = field(default_factory=Counter)
    actions: dict[str, list[str]] = field(default_factory=dict)
    unread: int = 0

    def add(self, judged: JudgedJobSet, violated: Sequence[Violation]) -> None:
        """Count a JobSet and its violations."""
        self.refused += bool(violated)
        self.refused_now += any(each.policy.spec.denies for each in violated)
        self.actions |= {each.policy.metadata.name: list(each.policy.spec.validation_actions) for each in violated}
        self.broken.update({(each.policy.metadata.name, each.rule) for each in violated})
        for each in violated:
            if len(self.shown) == MAX_SHOWN:
                self.left_out += 1
                continue
            meta, error = judged.js.metadata, each.error
            self.shown.append({
                "namespace": meta.namespace,
                "jobset": meta.name,
                "policy": each.policy.metadata.name,
                "rule": each.rule,
                "path": str(error.path),
                "message": error.complaint,
                "fix": error.fix,
                "actions": self.actions[each.policy.metadata.name],
                **self.location(each.policy.metadata.name, each.rule),
            })  # fmt: skip

    def location(self, policy: str, rule: str) -> dict[str, Any]:
        """File and line of the rule; empty for a policy of the cluster."""
        file, line = self.locations.get((policy, rule), ("", 0))
        return {"file": file, "line": line} if file else {}


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the violations to `out` and problems to `err`; returns the exit code."""
    return session.run("policy scan", partial(_scan, options, out, err), err, right="list")


async def _scan(options: Options, out: TextIO, err: TextIO) -> int:
    filed_policies = _from_files(options.policies, err) if options.policies else []
    if filed_policies is None:
        return session.NOT_DONE
    async with session.connect_to(options) as to:
        policies = [each.value for each in filed_policies] or await stored_policies(to.client)
        namespace = None if options.everywhere else to.namespace
        exceptions = await stored_exceptions(to.client, namespace)
        namespaces, found = Namespaces(to.client, policies), ScanResult(_locations(filed_policies))
        async with session.naming(to, ""):
            async for obj in stored_jobsets(to.client, namespace):
                name = str(dig(obj, "metadata", "namespace"))
                with contextlib.suppress(NoNamespaceError):  # deleted meanwhile, and the JobSet with it
                    own = exceptions.get(name, [])
                    _judge(obj, policies, await namespaces.get(name), own, found)
        if namespace and not found.jobsets and (text := await session.no_namespace(to.client, namespace)):
            raise session.UsageError(text)
    _write(found, options.output, out)
    if found.unread:
        err.write(f"jobset policy scan: JobSets that cannot be read: {found.unread}\n")
    return session.NOT_DONE if found.unread else session.FAILED if found.refused else session.DONE


def _from_files(names: Sequence[str], err: TextIO) -> list[FiledObject[JobSetPolicy]] | None:
    """The policies in these files; None if they have faults."""
    report = Report()
    policies, _ = load(names, report)
    warn_of_conflicts(policies, report, _GATES)
    return None if write_faults("policy scan", report, err) else policies


def _locations(policies: Sequence[FiledObject[JobSetPolicy]]) -> dict[tuple[str, str], tuple[str, int]]:
    """File and line of each rule, by the names of policy and rule."""
    return {
        (each.value.metadata.name, rule.name): each.line(SPEC.at("rules", rule.name))
        for each in policies
        for rule, _ in rules_in_force(each.value)
    }


def _judge(
    obj: dict[str, Any],
    policies: Sequence[JobSetPolicy],
    namespace: Namespace,
    exceptions: list[JobSetPolicyException],
    found: ScanResult,
) -> None:
    found.jobsets += 1
    judged = judged_of(obj, _GATES)
    if judged is None:
        found.unread += 1
        return
    found.add(judged, broken_rules(policies, judged, namespace, exceptions, now()))


def _write(found: ScanResult, output: str, out: TextIO) -> None:
    counts = [
        {"policy": policy, "rule": rule, "actions": found.actions[policy], "jobsets": n, **found.location(policy, rule)}
        for (policy, rule), n in sorted(found.broken.items())
    ]
    if output in FORMS:
        body = {"jobsets": found.jobsets, "refused": found.refused, "refusedNow": found.refused_now}
        lists = {"counts": counts, "violations": found.shown, "leftOut": found.left_out}
        out.write(dump({**body, **lists}, output))
        return
    if counts:
        location_columns = ("where",) if found.locations else ()
        _table(("policy", "rule", "actions", "jobsets", *location_columns), counts, out)
        out.write("\n")
        _table(("namespace", "jobset", "rule", *location_columns, "path", "message"), found.shown, out)
    if found.left_out:
        out.write(f"and {found.left_out} more\n")
    more = found.refused - found.refused_now
    out.write(
        f"{found.refused_now} of {found.jobsets} JobSets would be refused now, {more} more if all policies denied\n"
    )


def _table(names: tuple[str, ...], rows: Sequence[Mapping[str, Any]], out: TextIO) -> None:
    """The rows; in the column `where`, file and line of the rule in its policy; messages with the fix."""
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
