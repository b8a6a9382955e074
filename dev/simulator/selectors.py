"""Parse label and field selectors of queries as the API server does, and match them. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

_COMMA = re.compile(r",(?![^()]*\))")
_SET = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^=!\s]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^=!\s]*)$")
_EXISTS = re.compile(r"^(?P<no>!?)\s*(?P<key>[^=!\s(),]+)$")


class SelectorError(ValueError):
    """The API server would not parse this selector."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """The part of a selector about one key.

    The value of the key has to be one of `values`. If `values` is None, the key has to exist. `is_negated` turns both
    around.
    """

    key: str
    values: frozenset[str] | None
    is_negated: bool

    def is_met(self, value: str | None) -> bool:
        """Whether an object is selected in which the key has this value. The value is None if the key is absent."""
        is_in_values = value is not None and (self.values is None or value in self.values)
        return is_in_values != self.is_negated


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects the objects that meet all requirements."""

    requirements: tuple[Requirement, ...] = ()

    def is_met(self, value: Callable[[str], str | None]) -> bool:
        return all(requirement.is_met(value(requirement.key)) for requirement in self.requirements)


EVERYTHING = Selector()


@lru_cache(maxsize=1024)
def parse(text: str) -> Selector:
    """Read `a=b,c!=d,e in (f,g),h notin (i),j,!k`. An empty text selects everything. Raises `SelectorError`."""
    return Selector(tuple(_requirement(part.strip()) for part in _COMMA.split(text) if part.strip()))


def matches(text: str, labels: Mapping[str, str]) -> bool:
    """Whether a selector selects an object with these labels. Raises `SelectorError`."""
    return parse(text).is_met(labels.get)


def _requirement(text: str) -> Requirement:
    if match := _SET.match(text):
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], values, match["op"] == "notin")
    if match := _EQUAL.match(text):
        return Requirement(match["key"], frozenset({match["value"]}), match["op"] == "!=")
    if match := _EXISTS.match(text):
        return Requirement(match["key"], None, bool(match["no"]))
    raise SelectorError(f"unable to parse requirement: {text!r}")
