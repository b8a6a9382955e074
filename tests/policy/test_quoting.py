"""No text of a policy or an exception gets out of its quotes in what is compiled of them, whichever field has it."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from api.features import FeatureGates
from kube.model.meta import ObjectMeta
from policy import cel
from policy.cel import Cel, Foreign, foreign
from policy.compiled.defaults import mutating_objects
from policy.compiled.policy import Circumstances, validating_objects
from policy.default_types import Defaults
from policy.exception_types import JobSetPolicyException, JobSetPolicyExceptionSpec
from policy.registry import Rules
from policy.types import JobSetPolicy

HOSTILE = (
    "canary' || true || '",
    'canary" || true || "',
    "canary\\' || true || '",
    "canary\n' + x",
    "canary') || (true",
)
NOW = datetime(2030, 1, 1, tzinfo=UTC)
_TEXTS = re.compile(r"'(?:\\.|[^'\\\n])*'")


def filled(kind: Any, text: str) -> Any:
    """A value of this type that has the text in every place that takes one, and says yes to everything else."""
    types = msgspec.inspect
    found: Any = 7
    if isinstance(kind, types.UnionType):
        kinds = [each for each in kind.types if not isinstance(each, types.NoneType)]
        found = filled(next((each for each in kinds if isinstance(each, types.StrType)), kinds[0]), text)
    elif isinstance(kind, types.Metadata):
        found = filled(kind.type, text)
    elif isinstance(kind, types.StrType):
        found = text
    elif isinstance(kind, types.VarTupleType):
        found = (filled(kind.item_type, text),)
    elif isinstance(kind, types.DictType):
        found = {text: filled(kind.value_type, text)}
    elif isinstance(kind, types.StructType):
        found = kind.cls(**{field.name: filled(field.type, text) for field in kind.fields})
    elif isinstance(kind, types.BoolType):
        found = True
    return found


def replaced(value: Any, path: tuple[Any, ...], text: Any) -> Any:
    """The same record with another value at a path of fields and indexes."""
    if not path:
        return text
    head, rest = path[0], path[1:]
    if isinstance(value, tuple):
        return (*value[:head], replaced(value[head], rest, text), *value[head + 1 :])
    return msgspec.structs.replace(value, **{head: replaced(getattr(value, head), rest, text)})


CHOICES: dict[tuple[str, ...], Any] = {
    ("spec", "rules", "forbid"): ("hostPath",),
    ("spec", "validation_actions"): ("Deny",),
    ("spec", "rules", "network_dns"): "Enabled",
    ("spec", "exceptions", "max_duration"): "999d",
}
"""Fields whose values the program looks up, so that they have to be some of the schema."""


def hostile(text: str) -> tuple[JobSetPolicy, JobSetPolicyException]:
    policy = filled(msgspec.inspect.type_info(JobSetPolicy), text)
    for path, known in CHOICES.items():
        policy = replaced(policy, path, known)
    operators = tuple(
        msgspec.structs.replace(policy.spec.match.object_selector.match_expressions[0], operator=operator)
        for operator in ("In", "NotIn", "Exists", "DoesNotExist")
    )
    selectors = [
        ("spec", "match", "namespace_selector"),
        ("spec", "match", "object_selector"),
        ("spec", "exceptions", "allowed_namespaces"),
    ]
    for path in selectors:
        policy = replaced(policy, (*path, "match_expressions"), operators)
    policy = replaced(policy, ("metadata",), ObjectMeta(name=text, uid="u"))
    exception = filled(msgspec.inspect.type_info(JobSetPolicyException), text)
    meta = ObjectMeta(name=text, namespace=text, uid="u", creation_timestamp="2029-12-31T00:00:00Z")
    exception = replaced(exception, ("metadata",), meta)
    exception = replaced(exception, ("spec", "expires_at"), "2031-01-01T00:00:00Z")
    exception = replaced(exception, ("spec", "rules"), ("maxJobs",))
    return policy, replaced(exception, ("spec", "match", "object_selector", "match_expressions"), operators)


def expressions(value: Any, name: str = "") -> Iterator[str]:
    """Everything in a compiled object that the API server evaluates."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from expressions(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from expressions(each, name)
    elif name in {"expression", "messageExpression"}:
        yield value


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_in_any_field_of_a_policy_or_an_exception_stays_a_text(text: str):
    policy, exception = hostile(text)
    gates = FeatureGates({"AllAlpha": True})
    found = [
        *validating_objects(policy, Circumstances((text,), (exception,), NOW)),
        *mutating_objects(policy, (policy, msgspec.structs.replace(policy, metadata=ObjectMeta(name="a"))), gates),
    ]
    written = [*expressions(found)]
    assert sum(each.count("canary") for each in written) > 100
    for each in written:
        assert "canary" not in _TEXTS.sub("", each)
        assert "true ||" not in _TEXTS.sub("", each)


def foreign_texts(value: Any) -> Iterator[bool]:
    """Whether each text of a value is foreign."""
    if isinstance(value, str):
        yield isinstance(value, Foreign)
    elif isinstance(value, msgspec.Struct):
        yield from (each for name in value.__struct_fields__ for each in foreign_texts(getattr(value, name)))
    elif isinstance(value, dict):
        yield from (each for pair in value.items() for part in pair for each in foreign_texts(part))
    elif isinstance(value, list | tuple):
        yield from (each for item in value for each in foreign_texts(item))


@pytest.mark.parametrize("record", [Rules, JobSetPolicyExceptionSpec, Defaults])
def test_every_text_of_a_record_is_foreign_and_no_expression(record: type):
    whole = filled(msgspec.inspect.type_info(record), "canary")
    texts = [*foreign_texts(foreign(whole))]
    assert texts
    assert all(texts)
    assert foreign(whole) == whole


def test_a_foreign_text_gets_into_an_expression_by_a_literal_only():
    name = foreign("x' + y")
    assert cel.text(name) == Cel(r"'x\' + y'")
    for write in (lambda: f"a == {name}", lambda: "a == {}".format(name), lambda: Cel(name)):  # noqa: UP032
        with pytest.raises(TypeError, match="text\\(\\)"):
            write()
