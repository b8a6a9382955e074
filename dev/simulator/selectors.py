"""Label and field selectors as the API server reads them (the string form of queries). Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

_COMMA = re.compile(r",(?![^()]*\))")
_SET = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^=!\s]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^=!\s]*)$")
_EXISTS = re.compile(r"^(?P<no>!?)\s*(?P<key>[^=!\s(),]+)$")


class SelectorError(ValueError):
    """A selector that the API server would not parse."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """The value of `key` is one of `values` (`wanted`), or none of them. `values` None: `key` exists, or does not."""

    key: str
    values: frozenset[str] | None
    wanted: bool

    def met(self, value: str | None) -> bool:
        """Whether an object with that value (None: without the key) is selected. An absent key is in no set."""
        found = value is not None and (self.values is None or value in self.values)
        return found == self.wanted


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements hold."""

    requirements: tuple[Requirement, ...] = ()

    def met(self, value: Callable[[str], str | None]) -> bool:
        return all(requirement.met(value(requirement.key)) for requirement in self.requirements)


EVERYTHING = Selector()


@lru_cache(maxsize=1024)
def parse(text: str) -> Selector:
    """Read `a=b,c!=d,e in (f,g),h notin (i),j,!k`; an empty text selects everything. Raises `SelectorError`."""
    return Selector(tuple(_requirement(part.strip()) for part in _COMMA.split(text) if part.strip()))


def matches(text: str, labels: Mapping[str, str]) -> bool:
    """Whether an object with those labels is selected. Raises `SelectorError`."""
    return parse(text).met(labels.get)


def _requirement(text: str) -> Requirement:
    if found := _SET.match(text):
        values = frozenset(value.strip() for value in found["values"].split(","))
        return Requirement(found["key"], values, found["op"] == "in")
    if found := _EQUAL.match(text):
        return Requirement(found["key"], frozenset({found["value"]}), found["op"] != "!=")
    if found := _EXISTS.match(text):
        return Requirement(found["key"], None, not found["no"])
    raise SelectorError(f"unable to parse requirement: {text!r}")
