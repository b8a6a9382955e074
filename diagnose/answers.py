"""The answers of causes. A cause is a function that looks for one kind of reason why a JobSet waits. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps

from diagnose.case import Case
from diagnose.finding import Finding, Level, pluralize
from diagnose.states import State
from kube.model.field import join_names

MAX_FINDINGS = 8
"""At most this many keys of one cause get a finding each. Jobs or groups with further keys are only counted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A finding, and the names of the Jobs that it explains, which later causes leave out.

    - `state`: the state of the set, if the finding decides it; `headline` follows the state in the first line.
    - `is_final`: no further causes are tried.
    - `is_listed_last`: the finding is printed after the findings about other Jobs.
    """

    finding: Finding
    explained_jobs: frozenset[str] = frozenset()
    state: State | None = None
    headline: str = ""
    is_final: bool = False
    is_listed_last: bool = False


@dataclass(frozen=True, slots=True)
class KeyedFinding:
    """The finding of a cause about the Job or group `name`. Objects with the same `key` share the first finding.

    `finding` may be a function that computes the finding, if the computation takes long.
    """

    name: str
    key: object
    finding: Finding | Callable[[], Finding]


Cause = Callable[[Case, frozenset[str]], Iterable[Answer]]
"""Takes the case and the names of the Jobs that no earlier cause has explained. Answers about these Jobs or the set."""


def about_jobs(find_about_jobs: Callable[[Case, frozenset[str]], Iterable[KeyedFinding]]) -> Cause:
    """Decorator that makes a cause of a function that yields findings about single Jobs.

    The cause has one answer for each key, and one for all further objects with the key.
    """

    @wraps(find_about_jobs)
    def cause(case: Case, unexplained: frozenset[str]) -> Iterable[Answer]:
        findings = merge_findings(find_about_jobs(case, unexplained), "Job", "Job {}")
        return [Answer(finding, frozenset(jobs)) for finding, jobs in findings]

    return cause


def merge_findings(findings: Iterable[KeyedFinding], noun: str, title: str = "{}") -> list[tuple[Finding, list[str]]]:
    """One finding for each key, about the first object with this key. Further objects get a finding "likewise".

    Each finding comes with the names of its objects. `title` is a template for the name of one object.
    """
    findings_by_key: dict[object, list[KeyedFinding]] = {}
    for keyed in findings:
        findings_by_key.setdefault(keyed.key, []).append(keyed)
    merged: list[tuple[Finding, list[str]]] = []
    grouped = list(findings_by_key.values())
    for same_key in grouped[:MAX_FINDINGS]:
        first, other_names = same_key[0], [keyed.name for keyed in same_key[1:]]
        finding = first.finding if isinstance(first.finding, Finding) else first.finding()
        merged.append((finding, [first.name]))
        if other_names:
            subject = f"{len(other_names)} more {noun}s ({other_names[0]} … {other_names[-1]})"
            message = f"{title.format(other_names[0]) if len(other_names) == 1 else subject}: likewise"
            merged.append((Finding(finding.level, finding.cause, message), other_names))
    if further_names := list(dict.fromkeys(keyed.name for same_key in grouped[MAX_FINDINGS:] for keyed in same_key)):
        more = f"{pluralize(len(further_names), f'more {noun}')} ({join_names(further_names, 2)})"
        merged.append((Finding(Level.WAITS, "more", f"{more}: waiting for reasons of this kind, too"), further_names))
    return merged
