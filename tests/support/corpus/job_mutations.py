"""Jobs at random: templates of `job_mistakes` laid over each other, with some of their values changed."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from tests.support.corpus.job_mistakes import CASES
from tests.support.objects.jobsets import JSON, rjob

TEXTS = [
    "",
    "a b",
    "Always",
    "Never",
    "None",
    "TCP",
    "a/b",
    "a/b/c",
    "-1",
    "../x",
    "/x",
    "x" * 64,
    "Ä",
    "0",
    "1.5",
    "main",
]
NUMBERS = [-1, 0, 1, 3, 100, 70_000, 2**31 - 1]
Place = tuple[Any, ...]


@st.composite
def templates(draw: st.DrawFn) -> JSON:
    """A ReplicatedJob whose values have the types that the schema wants."""
    names = draw(st.lists(st.sampled_from(sorted(CASES)), min_size=1, max_size=3, unique=True))
    template = rjob()
    for name in names:
        template = merged(template, CASES[name])
    template = copy.deepcopy(template)
    spec = template["template"]["spec"]
    places = list(leaves(spec, ()))
    for _ in range(draw(st.integers(0, 2))):
        *parents, last = draw(st.sampled_from(places))
        holder = spec
        for part in parents:
            holder = holder[part]
        pool: list[Any] = TEXTS if isinstance(holder[last], str) else NUMBERS
        holder[last] = draw(st.sampled_from([not holder[last]] if isinstance(holder[last], bool) else pool))
    return template


def merged(one: Any, other: Any) -> Any:
    """The second laid over the first: objects by member, lists by item."""
    if isinstance(one, dict) and isinstance(other, dict):
        both = {key: merged(one[key], other[key]) for key in one.keys() & other.keys()}
        return {**one, **other, **both}
    if isinstance(one, list) and isinstance(other, list):
        return [*map(merged, one, other), *one[len(other) :], *other[len(one) :]]
    return other


def leaves(value: Any, place: Place) -> Iterator[Place]:
    """Places of texts, numbers and booleans."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*place, key))
    elif value is not None:
        yield place
