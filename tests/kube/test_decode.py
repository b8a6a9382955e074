"""What every typed record makes of null and of the empty string, wherever they stand."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from api import pod
from api.batch import Claim, Job, OwnedObject, Service
from api.gang_status import StoredGroup, StoredWorkload
from api.jobset import JobSet
from api.priority import PriorityClass
from kube.decode import decode
from kube.errors import UnreadableAnswerError
from kube.model.meta import Base

JSON = dict[str, Any]
RAW = "key"
"""Member of every map of a sample: of labels, and of JSON that no record describes."""
SCALARS = {inspect.BoolType: True, inspect.IntType: 1, inspect.FloatType: 1, inspect.AnyType: {"any": "thing"}}
TYPES = [Claim, Job, OwnedObject, Service, StoredGroup, StoredWorkload, JobSet, PriorityClass]
TYPES += [kind for kind in vars(pod).values() if isinstance(kind, type) and issubclass(kind, Base) and kind is not Base]


def sample(kind: Any, depth: int = 0) -> Any:
    """A value with every field of a record filled in; raw JSON is an object."""
    match kind:
        case inspect.Metadata(type=inner):
            value: Any = sample(inner, depth)
        case inspect.StructType(fields=fields):
            value = {field.encode_name: sample(field.type, depth + 1) for field in fields} if depth < 9 else {}
        case inspect.UnionType(types=types):
            value = sample(next(of for of in types if not isinstance(of, inspect.NoneType)), depth)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            value = [sample(item, depth + 1)]
        case inspect.DictType():
            value = {RAW: "value"}
        case _:
            value = SCALARS.get(type(kind), "2026-01-01T00:00:00Z")
    return value


def full(kind: type) -> JSON:
    made: JSON = sample(inspect.type_info(kind))
    return made


def places(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place below the top."""
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in items:
        yield from places(member, (*at, key))


def changed(value: Any, at: tuple[str | int, ...], to: Any) -> Any:
    if not at:
        return to
    head, *rest = at
    if isinstance(value, list):
        return [changed(item, tuple(rest), to) if index == head else item for index, item in enumerate(value)]
    return {key: changed(member, tuple(rest), to) if key == head else member for key, member in value.items()}


def removed(value: Any, at: tuple[str | int, ...]) -> Any:
    head, *rest = at
    if isinstance(value, list):
        return [removed(item, tuple(rest)) if index == head else item for index, item in enumerate(value)]
    if not rest:
        return {key: member for key, member in value.items() if key != head}
    return {key: removed(member, tuple(rest)) if key == head else member for key, member in value.items()}


def outcome(kind: type, value: JSON) -> Any:
    """What is read, or that it cannot be."""
    try:
        return decode(kind, msgspec.json.encode(value))
    except UnreadableAnswerError:
        return None


@pytest.mark.parametrize("kind", TYPES)
def test_the_sample_is_read(kind):
    assert outcome(kind, full(kind)) is not None


@pytest.mark.parametrize("kind", TYPES)
def test_null_is_read_as_absent_at_every_place(kind):
    whole = full(kind)
    # Raw JSON is handed on as it is, nulls and all.
    members = [at for at in places(whole) if isinstance(at[-1], str) and at[-1] != RAW]
    assert members
    for at in members:
        null, absent = outcome(kind, changed(whole, at, None)), outcome(kind, removed(whole, at))
        assert null == absent, f"{kind.__name__}: {at} is null"


@pytest.mark.parametrize("kind", TYPES)
def test_an_empty_string_is_read_at_every_place_of_a_string(kind):
    whole = full(kind)
    for at in places(whole):
        value: Any = whole
        for key in at:
            value = value[key]
        if isinstance(value, str):
            assert outcome(kind, changed(whole, at, "")) is not None, f"{kind.__name__}: {at} is empty"


def test_a_label_that_is_null_is_none():
    data = b'{"metadata":{"name":"a","labels":{"x":null,"y":"1"}}}'
    assert decode(Job, data).metadata.labels == {"y": "1"}


def test_a_job_condition_without_a_time_is_read():
    """What test suites of clients, and other writers of Job status, store."""
    condition = {"type": "Failed", "status": "True", "lastTransitionTime": None, "reason": "BackoffLimitExceeded"}
    job = decode(Job, msgspec.json.encode({"metadata": {"name": "a"}, "status": {"conditions": [condition]}}))
    assert job.outcome == "Failed"
    assert job.status.conditions[0].last_transition_time == ""


def test_what_is_wrong_in_other_ways_is_named_with_its_place():
    with pytest.raises(UnreadableAnswerError, match=r"Expected `integer`, got `string` - at `\$.status.active`"):
        decode(Job, b'{"metadata":{"name":null},"status":{"active":"many"}}')
