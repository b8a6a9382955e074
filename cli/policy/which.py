"""Runs `jobset policy which`: lists the policies that apply to a namespace, and the exceptions in it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from api.features import FeatureGates
from cli import session
from cli.messages import printable
from cli.output import DATA_FORMATS, columns, dump
from cli.policy.stored import Namespaces, NoNamespaceError, stored_exceptions, stored_policies
from kube.clock import now
from kube.model.meta import find
from policy.conditions import IN_API_SERVER
from policy.conflicts import conflicts
from policy.defaults import each_default
from policy.evaluate import rules_in_force
from policy.exception_types import JobSetPolicyException
from policy.exceptions import format_time, standing
from policy.judged import Namespace
from policy.types import JobSetPolicy, JobSetPolicyObject, Selector

NO_STATEMENT = "the manager has said nothing about it"
_ENFORCEMENT_WORDS = {True: "holds it", False: "does not", None: "not known"}
_GATES = FeatureGates({"AllAlpha": True})
"""All feature gates are on, since those of the manager are not known. So defaults that need a gate are listed, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(session.ClusterFlags):
    """The namespace, and the form of the output."""

    output: str = "table"


@session.command("policy which")
async def run(options: Options, out: TextIO, _: TextIO) -> int:
    """Write policies and exceptions to `out`. Returns the exit code."""
    async with session.connect(options) as connection:
        policies = await stored_policies(connection.client)
        try:
            namespace = await Namespaces(connection.client, policies).get(connection.namespace)
        except NoNamespaceError:
            await session.refuse_missing_namespace(connection)
            raise
        exceptions = await stored_exceptions(connection.client, connection.namespace)
    policies_here = [policy for policy in policies if policy.spec.match.namespace_selector.matches(namespace.labels)]
    policies_by_name = {policy.metadata.name: policy for policy in policies}
    policy_bodies = [_policy_json(policy) for policy in policies_here]
    contradictions = [
        f"policy {policy.metadata.name}: {error.reader_text}"
        for position, policy in enumerate(policies_here)
        for error in conflicts(policy, policies_here[position + 1 :], _GATES)
    ]
    exception_bodies = [
        _exception_json(exception, policies_by_name, namespace)
        for exception in exceptions.get(connection.namespace, [])
    ]
    if options.output in DATA_FORMATS:
        body = {
            "namespace": connection.namespace,
            "policies": policy_bodies,
            "exceptions": exception_bodies,
            "conflicts": contradictions,
        }
        out.write(dump(body, options.output))
        return session.DONE
    _write(connection.namespace, policy_bodies, exception_bodies, contradictions, out)
    return session.DONE


def _policy_json(policy: JobSetPolicyObject) -> dict[str, Any]:
    spec = policy.spec
    return {
        "name": policy.metadata.name,
        "actions": list(spec.validation_actions),
        "someJobSets": spec.match.object_selector != Selector(),
        "rules": [rule.name for rule, _ in rules_in_force(policy)],
        "defaults": [default.name for default in each_default(spec.defaults)],
        "values": {default.name: default.value for default in each_default(spec.defaults)},
        "apiServer": _api_server_enforcement(policy) if spec.is_enforced_by_api_server else None,
    }


def _api_server_enforcement(policy: JobSetPolicyObject) -> dict[str, Any]:
    """`holds`: whether the API server enforces a policy, None if this is not known. `message`: the reason."""
    condition = find(policy.status.conditions, IN_API_SERVER)
    if condition is None:
        return {"holds": None, "message": NO_STATEMENT}
    return {"holds": condition.status == "True", "message": condition.message}


def _exception_json(
    exception: JobSetPolicyException, policies: Mapping[str, JobSetPolicy], namespace: Namespace
) -> dict[str, Any]:
    """The exception, with the time until which it counts, or with the reason why it does not count."""
    current_standing = standing(exception, policies.get(exception.spec.policy), namespace, now())
    return {
        "name": exception.metadata.name,
        "policy": exception.spec.policy,
        "rules": list(exception.spec.rules),
        "until": format_time(current_standing.end_time) if current_standing.end_time else None,
        "absentRules": list(current_standing.missing_rules),
        "whyNot": current_standing.why_not,
    }


def _write(
    namespace: str,
    policies: list[dict[str, Any]],
    exceptions: list[dict[str, Any]],
    contradictions: list[str],
    out: TextIO,
) -> None:
    """Write the table of policies, their problems, and the table of exceptions."""
    rows = [("POLICY", "ACTIONS", "JOBSETS", "API-SERVER", "RULES")]
    problems: list[str] = []
    for policy in policies:
        defaults = [f"default {name}={_format_value(policy['values'][name])}" for name in policy["defaults"]]
        rows.append((
            policy["name"],
            ",".join(policy["actions"]),
            "some, by their labels" if policy["someJobSets"] else "all",
            _ENFORCEMENT_WORDS[policy["apiServer"]["holds"]] if policy["apiServer"] else "not asked",
            ", ".join([*policy["rules"], *defaults]),
        ))  # fmt: skip
        enforcement = policy["apiServer"]
        if enforcement and not enforcement["holds"]:
            negated_verb = "may not be" if enforcement["holds"] is None else "is not"
            problems.append(f"policy {policy['name']} {negated_verb} held by the API server: {enforcement['message']}")
    out.writelines(columns(rows) if policies else [f"no policy is about namespace {namespace}\n"])
    out.writelines(f"{printable(text)}\n" for text in (*problems, *contradictions))
    if exceptions:
        lines = [
            (item["name"], item["policy"], ",".join(item["rules"]), item["whyNot"] or _expiry_text(item))
            for item in exceptions
        ]
        out.write("\n")
        out.writelines(columns([("EXCEPTION", "POLICY", "RULES", "COUNTS"), *lines]))


def _expiry_text(exception: Mapping[str, Any]) -> str:
    absent = " or ".join(exception["absentRules"])
    return f"until {exception['until']}" + (f"; the policy has no rule {absent}" if absent else "")


def _format_value(value: Any) -> str:
    """The value of a default in the form of a manifest."""
    return value if isinstance(value, str) else json.dumps(value)
