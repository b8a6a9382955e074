"""Every field of a JobSet is judged by a rule of policies, or exempted with a reason: nothing new goes by unseen."""

import copy

import pytest

from app.engine import crd_schema
from policy.registry import RULES
from tests.support.corpus.exempt_fields import EXEMPT, SENSITIVE
from tests.support.corpus.rule_cases import Case, cases
from tests.support.objects.jobsets import JSON
from tests.support.objects.policies import policy, violations_of

CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_rule_finds_what_breaks_it_in_each_field_that_it_declares(case: Case):
    demands = policy(**{case.rule: case.demand})
    assert violations_of(case.jobset(bad=False), demands) == []
    assert {found.rule for found in violations_of(case.jobset(), demands)} == {case.rule}


def leaves(schema: JSON, path: str = "") -> list[str]:
    """Every field that has a value of its own, as a path."""
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        return [
            leaf for name, child in schema["properties"].items() for leaf in leaves(child, f"{path}.{name}".lstrip("."))
        ]
    if kind == "array":
        return leaves(schema["items"], f"{path}[]")
    return [f"{path}{{}}" if "additionalProperties" in schema else path]


def covers(line: str, path: str) -> bool:
    """Whether an exemption is about a field."""
    if line.endswith("**"):
        return path.startswith(line.removesuffix("**"))
    name = path.rpartition(".")[2].rstrip("[]{}")
    return path == line or (line.endswith("*") and path.startswith(line[:-1]) and not SENSITIVE.search(name))


def unjudged(schema: JSON) -> list[str]:
    """Fields that no rule reads and nothing exempts."""
    read = {path for rule in RULES.values() for path in rule.reads}
    return [path for path in leaves(schema) if path not in read and not any(covers(line, path) for line in EXEMPT)]


SPEC = {"type": "object", "properties": {"spec": crd_schema()["properties"]["spec"]}}


def test_every_field_of_the_schema_is_judged_or_exempted():
    assert unjudged(SPEC) == [], "a rule reads it, or tests/support/corpus/exempt_fields.py says why none does"


@pytest.mark.parametrize(
    ("below", "field"),
    [
        ("spec.failurePolicy", "lastAction"),
        ("spec.failurePolicy.agent", "helperImage"),
        ("spec.replicatedJobs[].template.spec.template.spec", "hostClipboard"),
        ("spec.replicatedJobs[].template.spec.template.spec.containers[].securityContext", "privilegedMode"),
        ("spec.replicatedJobs[].template.spec.template.spec.volumes[].csi", "deviceClaim"),
        ("spec.scheduling.replicatedJobs[]", "tolerations"),
        ("spec.successPolicy", "replicasAtMost"),
    ],
)
def test_a_new_field_that_no_rule_reads_is_found(below: str, field: str):
    schema = copy.deepcopy(SPEC)
    node = schema
    for part in below.split("."):
        node = node["properties"][part.removesuffix("[]")]
        node = node["items"] if part.endswith("[]") else node
    node["properties"][field] = {"type": "string"}
    assert unjudged(schema) == [f"{below}.{field}"]


def test_what_is_declared_and_exempted_is_in_the_schema_and_not_both():
    known = leaves(SPEC)
    read = {path for rule in RULES.values() for path in rule.reads if path.startswith("spec.")}
    assert {rule.name for rule in RULES.values() if not rule.reads} == set()
    assert {path for path in read if path not in known and not path.endswith("hostPath")} == set()
    assert [line for line in EXEMPT if not any(covers(line, path) for path in known)] == []
    assert [path for path in read if path in EXEMPT] == []
