"""What a cause answers: findings about the set, or about Jobs that later causes then leave out. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps

from diagnose.case import Case
from diagnose.finding import Finding, Level, join_names, pluralize
from diagnose.states import State

MAX_FINDINGS = 8
"""Different findings of one cause; the Jobs or groups of further ones are counted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A finding and the Jobs that it explains; later causes leave these out. `state` is that of the set.

    `headline` follows the state in the first line. `ends`: no further causes are tried. `follows`: it is printed after
    the findings about other Jobs.
    """

    finding: Finding
    jobs: frozenset[str] = frozenset()
    state: State | None = None
    headline: str = ""
    ends: bool = False
    follows: bool = False


@dataclass(frozen=True, slots=True)
class KeyedFinding:
    """The finding of a cause about one Job or one group, by name. Those with the same `key` share the first one.

    `finding`: or a function that computes it, if that takes long.
    """

    name: str
    key: object
    finding: Finding | Callable[[], Finding]


Cause = Callable[[Case, frozenset[str]], Iterable[Answer]]
"""Gets the names of the Jobs that no cause before it has explained; answers about those, or about the set."""


def about_jobs(find: Callable[[Case, frozenset[str]], Iterable[KeyedFinding]]) -> Cause:
    """A cause that finds something about single Jobs: one answer for all Jobs with the same key."""

    @wraps(find)
    def cause(case: Case, left: frozenset[str]) -> Iterable[Answer]:
        findings = merge_findings(find(case, left), "Job", "Job {}")
        return [Answer(finding, frozenset(jobs)) for finding, jobs in findings]

    return cause


def merge_findings(findings: Iterable[KeyedFinding], noun: str, title: str = "{}") -> list[tuple[Finding, list[str]]]:
    """One finding for each key, about the first object that has it; the others are listed as "likewise".

    Each comes with the names of the objects that it is about. `title` is a template for the name of one object.
    """
    by_key: dict[object, list[KeyedFinding]] = {}
    for keyed in findings:
        by_key.setdefault(keyed.key, []).append(keyed)
    found: list[tuple[Finding, list[str]]] = []
    for same in list(by_key.values())[:MAX_FINDINGS]:
        shared_finding, likewise = same[0].finding, [keyed.name for keyed in same[1:]]
        first = shared_finding if isinstance(shared_finding, Finding) else shared_finding()
        found.append((first, [same[0].name]))
        if likewise:
            subject = f"{len(likewise)} more {noun}s ({likewise[0]} … {likewise[-1]})"
            message = f"{title.format(likewise[0]) if len(likewise) == 1 else subject}: likewise"
            found.append((Finding(first.level, first.cause, message), likewise))
    uncounted = list(dict.fromkeys(keyed.name for same in list(by_key.values())[MAX_FINDINGS:] for keyed in same))
    if uncounted:
        more = f"{pluralize(len(uncounted), f'more {noun}')} ({join_names(uncounted, 2)})"
        found.append((Finding(Level.WAITS, "more", f"{more}: waiting for reasons of this kind, too"), uncounted))
    return found
