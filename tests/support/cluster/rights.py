"""What the manager asks of API servers while tests run, and whether its roles grant that and nothing else.

Every cluster of the tests leaves an audit log. What the manager's ServiceAccount asked for is collected from the logs
(`read`) and written to `REPORT` by tests/conftest.py. `python -m tests.support.cluster.rights` compares: after all tests only,
since a few tests use few rights.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from api.keys import GROUP, PLURAL
from dev.cluster import audit
from manifests import every_rbac_object
from tests.support.cluster.manager import USER

REPORT = Path(__file__).parents[3] / "build" / "rights.json"


class Right(NamedTuple):
    """`group` is "" for the core group. `name` is "" where the roles name no objects of the resource.

    A role that names none may be beside others that do; `name` is "" then for what it has permitted.
    """

    verb: str
    group: str
    resource: str
    name: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{self.group and '.'}{self.group}{self.name and ' '}{self.name}"


NOT_ASKED_FOR = {
    Right("update", GROUP, f"{PLURAL}/finalizers", ""): (
        "where the admission plugin OwnerReferencesPermissionEnforcement is on, only who has it may create a child "
        "that blocks the deletion of its owner; the plugin asks the authorizer, which leaves no trace in the audit log"
    ),
    Right("patch", "batch", "jobs/status", ""): (
        "API servers before 1.36 take another template only for a Job without start time, see "
        "tests/controllers/test_resume.py"
    ),
    **{
        Right("create", "admissionregistration.k8s.io", resource, ""): (
            "an apply that creates an object needs it as well as patch; the API server asks its authorizer without a trace"
        )
        for resource in (
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        )
    },
}
"""Rights that the manager needs, although it asks the API servers of the tests for nothing like that, and why."""


GRANTED_TO_EVERYBODY = {Right("create", "authorization.k8s.io", "selfsubjectaccessreviews", "")}
"""Kubernetes binds `system:basic-user` to all users."""


def granted() -> set[Right]:
    """What the roles bound to the manager's ServiceAccount allow."""
    objects = every_rbac_object()
    bound = {body["roleRef"]["name"] for body in objects if "roleRef" in body}
    return {
        Right(verb, group, resource, name)
        for role in objects
        if role["metadata"]["name"] in bound
        for rule in role.get("rules", [])
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


_GRANTED = granted()
_NAMED = {(right.group, right.resource) for right in _GRANTED if right.name}


def read(log: Path) -> set[Right]:
    """What was asked for with the manager's rights, granted or not. What tests do with kubectl in its name is left out."""
    return {
        _asked_for(call)
        for call in audit.calls(log, about=USER)
        if call.user == USER and not call.agent.startswith("kubectl")
    }


def _asked_for(call: audit.Call) -> Right:
    of_all = Right(call.verb, call.group, call.resource, "")
    named = of_all._replace(name=call.name)
    if (call.group, call.resource) not in _NAMED:
        return of_all
    return of_all if call.permitted and of_all in _GRANTED and named not in _GRANTED else named


def differences(asked: Iterable[Right]) -> list[str]:
    """One line for each right that is asked for and not granted, or granted and never asked for.

    Who may watch has to be able to list: without the streaming of lists a watch begins with one.
    """
    asked = set(asked)
    needed = asked | {right._replace(verb="list") for right in asked if right.verb == "watch"} | NOT_ASKED_FOR.keys()
    missing = [f"asked for and not granted: {right}" for right in sorted(asked - granted() - GRANTED_TO_EVERYBODY)]
    unused = [f"granted and never asked for: {right}" for right in sorted(granted() - needed)]
    return missing + unused


def write(asked: Iterable[Any]) -> None:
    """Keep what a run of tests asked for."""
    REPORT.parent.mkdir(exist_ok=True)
    rows = ",\n".join(json.dumps(list(right)) for right in sorted(map(tuple, asked)))
    REPORT.write_text(f"[\n{rows}\n]\n")


def main() -> int:
    """Compare what the last run of tests asked for with the roles; the exit status."""
    if not REPORT.exists():
        sys.stderr.write(f"there is no {REPORT.name} in {REPORT.parent.name}/: run `make test` first\n")
        return 2
    asked = [Right(*row) for row in json.loads(REPORT.read_text())]
    found = differences(asked)
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.stdout.write(f"rights of the manager: {len(granted())} granted, {len(found)} differences\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
