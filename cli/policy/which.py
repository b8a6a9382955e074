"""`jobset policy which`: the policies that apply to a namespace, and the exceptions there. Reads; changes nothing.

Exit codes: 0, also if there are none; 2 if they cannot be read.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO

from api.features import FeatureGates
from cli import session
from cli.messages import printable
from cli.output import FORMS, columns, dump
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

NOT_SAID = "the manager has said nothing about it"
_ENFORCEMENT_WORDS = {True: "holds it", False: "does not", None: "not known"}
_GATES = FeatureGates({"AllAlpha": True})
"""The manager's feature gates are not known here, so defaults that need one are listed as if it were on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(session.Where):
    """The namespace; empty: that of the context."""

    output: str = "table"


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write policies and exceptions to `out` and problems to `err`; returns the exit code."""
    return session.run("policy which", partial(_which, options, out), err)


async def _which(options: Options, out: TextIO) -> int:
    async with session.connect_to(options) as to:
        policies = await stored_policies(to.client)
        try:
            namespace = await Namespaces(to.client, policies).get(to.namespace)
        except NoNamespaceError as error:
            raise session.UsageError(await session.no_namespace(to.client, to.namespace) or str(error)) from error
        exceptions = await stored_exceptions(to.client, to.namespace)
    matching = [policy for policy in policies if policy.spec.match.namespace_selector.matches(namespace.labels)]
    policies_by_name = {policy.metadata.name: policy for policy in policies}
    bodies = [_policy(policy) for policy in matching]
    against = [
        f"policy {policy.metadata.name}: {error.reader_text}"
        for number, policy in enumerate(matching)
        for error in conflicts(policy, matching[number + 1 :], _GATES)
    ]
    granted = [_exception(each, policies_by_name, namespace) for each in exceptions.get(to.namespace, [])]
    if options.output in FORMS:
        body = {"namespace": to.namespace, "policies": bodies, "exceptions": granted, "conflicts": against}
        out.write(dump(body, options.output))
        return session.DONE
    _write(to.namespace, bodies, granted, against, out)
    return session.DONE


def _policy(policy: JobSetPolicyObject) -> dict[str, Any]:
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
    """Whether the API server itself enforces a policy that asks for that; `holds` None: not known."""
    condition = find(policy.status.conditions, IN_API_SERVER)
    if condition is None:
        return {"holds": None, "message": NOT_SAID}
    return {"holds": condition.status == "True", "message": condition.message}


def _exception(
    exception: JobSetPolicyException, policies: Mapping[str, JobSetPolicy], namespace: Namespace
) -> dict[str, Any]:
    stands = standing(exception, policies.get(exception.spec.policy), namespace, now())
    return {
        "name": exception.metadata.name,
        "policy": exception.spec.policy,
        "rules": list(exception.spec.rules),
        "until": format_time(stands.until) if stands.until else None,
        "absentRules": list(stands.absent),
        "whyNot": stands.why_not,
    }


def _write(
    namespace: str,
    policies: list[dict[str, Any]],
    exceptions: list[dict[str, Any]],
    against: list[str],
    out: TextIO,
) -> None:
    if not policies:
        out.write(f"no policy is about namespace {namespace}\n")
    else:
        rows = [
            (
                each["name"],
                ",".join(each["actions"]),
                "some, by their labels" if each["someJobSets"] else "all",
                _ENFORCEMENT_WORDS[each["apiServer"]["holds"]] if each["apiServer"] else "not asked",
                ", ".join(
                    [
                        *each["rules"],
                        *(f"default {key}={_format_value(each['values'][key])}" for key in each["defaults"]),
                    ]
                ),
            )
            for each in policies
        ]
        out.writelines(columns([("POLICY", "ACTIONS", "JOBSETS", "API-SERVER", "RULES"), *rows]))
        for each in policies:
            enforcement = each["apiServer"]
            if enforcement and not enforcement["holds"]:
                doubt = "may not be" if enforcement["holds"] is None else "is not"
                text = f"policy {each['name']} {doubt} held by the API server: {enforcement['message']}"
                out.write(f"{printable(text)}\n")
        out.writelines(f"{printable(text)}\n" for text in against)
    if exceptions:
        lines = [
            (each["name"], each["policy"], ",".join(each["rules"]), each["whyNot"] or _until(each))
            for each in exceptions
        ]
        out.write("\n")
        out.writelines(columns([("EXCEPTION", "POLICY", "RULES", "COUNTS"), *lines]))


def _until(exception: Mapping[str, Any]) -> str:
    absent = " or ".join(exception["absentRules"])
    return f"until {exception['until']}" + (f"; the policy has no rule {absent}" if absent else "")


def _format_value(value: Any) -> str:
    """The value of a default as it stands in a manifest."""
    return value if isinstance(value, str) else json.dumps(value)
