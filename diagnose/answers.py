"""Checks and their answers. A check is a function that looks for one cause why a JobSet waits. Pure.

An answer is a finding, which is a statement for the user, and the names of the Jobs that wait for the same cause. A
check gets the facts as a `Case`, and the names of the unexplained Jobs: those that no earlier check has answered for.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps

from diagnose.case import Case
from diagnose.finding import Finding, Level, pluralize
from diagnose.states import State
from kube.model.field import join_names

MAX_FINDINGS = 8
"""At most this many keys of one check get findings. The Jobs or groups with further keys are only counted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A finding, and the names of the Jobs that it explains. Later checks leave these Jobs out.

    - `state`: the state of the JobSet, if the finding decides it. `headline`: a text after the state in the first line.
    - `is_final`: no further checks are run.
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
    """A finding about the Job or group `name`. Of findings with the same `key`, only the first is shown.

    `finding` may be a function that computes the finding. It is called only if the finding is shown.
    """

    name: str
    key: object
    finding: Finding | Callable[[], Finding]


Check = Callable[[Case, frozenset[str]], Iterable[Answer]]
"""Returns answers about unexplained Jobs, whose names are the second argument, or about the whole JobSet."""


def one_answer_per_key(find_about_jobs: Callable[[Case, frozenset[str]], Iterable[KeyedFinding]]) -> Check:
    """Decorator that makes a check of a function that yields a finding for each of many Jobs.

    For each key, the check has one answer about the first Job, and one about all other Jobs with the key.
    """

    @wraps(find_about_jobs)
    def check(case: Case, unexplained_jobs: frozenset[str]) -> Iterable[Answer]:
        findings = merge_findings(find_about_jobs(case, unexplained_jobs), "Job", "Job {}")
        return [Answer(finding, frozenset(jobs)) for finding, jobs in findings]

    return check


def merge_findings(findings: Iterable[KeyedFinding], noun: str, title: str = "{}") -> list[tuple[Finding, list[str]]]:
    """For each key, the finding about the first Job or group, and one finding "likewise" about all others with the key.

    Each finding comes with the names that it is about. `noun`: `Job` or `group`. `title`: a template for one name.
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
