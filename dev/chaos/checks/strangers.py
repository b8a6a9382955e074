"""Checks that strangers, which are unauthenticated clients, do no harm.

Whatever strangers do, liveness probes succeed, small reviews are fast, and they do not flood the log.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from dev.chaos.checks.admission import Window
from dev.chaos.checks.calm import MAX_SECONDS, MIN_SAMPLES, is_within, percentile
from dev.chaos.checks.violation import Violation

REFUSED, LATE, SLOW = "liveness refused", "liveness late", "small review slow"
FLOODED, CONTROLS = "log flooded", "control characters in the log"

LIVENESS, REVIEW = "liveness", "review"

NO_ANSWER = "no answer in time"

WEBHOOK_TIMEOUT = 10.0
"""Seconds that an API server waits for an answer."""

MAX_SLOWDOWN = 4.0
"""With a neighbour, the 99th percentile of reviews may be this many times the percentile without a neighbour."""

MAX_LINES_PER_SECOND = 200.0
"""Largest number of log lines of a replica in a second, as an average over `LOG_WINDOW`."""

LOG_WINDOW = 10
"""Seconds."""

_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_TIME_SEARCH_BYTES = 80
"""Bytes of a line in which its time is searched. A line without a time belongs to the line before it."""
_CONTROL_CHARACTER = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")


class Answer(NamedTuple):
    """An answer of a replica. `at`: time of the request, in seconds since 1970. `fault` is empty without a fault."""

    replica: str
    kind: str
    at: float
    seconds: float
    fault: str

    @property
    def end(self) -> float:
        return self.at + self.seconds


Expected = Mapping[str, Sequence[Window]]
"""The times in which each replica has to answer."""


def check_liveness(answers: Iterable[Answer], expected: Expected) -> tuple[dict[str, int], list[Violation]]:
    """The numbers of all probes, of refused probes and of probes without an answer in time, and the violations.

    Each refused probe is a violation. Late probes are a violation only if two are in a row: a busy machine may delay
    one probe.
    """
    figures = Counter[str](asked=0, refused=0, late=0)
    violations = []
    for replica, probes in _expected_answers(answers, LIVENESS, expected).items():
        refused = [probe for probe in probes if probe.fault not in {"", NO_ANSWER}]
        late = [probe for probe in probes if probe.fault == NO_ANSWER]
        late_in_a_row = [probe for earlier, probe in pairwise(probes) if earlier.fault == probe.fault == NO_ANSWER]
        figures.update(asked=len(probes), refused=len(refused), late=len(late))
        for rule, faulty_probes in ((REFUSED, refused), (LATE, late_in_a_row)):
            if faulty_probes:
                text = f"{len(faulty_probes)} of {len(probes)} probes; the first: {faulty_probes[0].fault}"
                violations.append(Violation(rule, replica, text, faulty_probes[0].at))
    return dict(figures), violations


def allowed_seconds(answers: Iterable[Answer], expected: Expected, windows_alone: Sequence[Window]) -> float:
    """The limit of the 99th percentile of reviews: a second, or `MAX_SLOWDOWN` times the one in `windows_alone`.

    `windows_alone`: times without a neighbour. On a machine with few cores, three replicas, the control plane, the load
    and the neighbour compete, and on a shared machine a review takes a second even without a neighbour. So only the
    ratio shows the effect of the neighbour.
    """
    durations = [
        WEBHOOK_TIMEOUT if review.fault else review.seconds
        for reviews in _expected_answers(answers, REVIEW, expected).values()
        for review in reviews
        if is_within(windows_alone, review.at, review.end)
    ]
    return max(MAX_SECONDS, MAX_SLOWDOWN * percentile(durations)) if len(durations) >= MIN_SAMPLES else MAX_SECONDS


def check_reviews(
    answers: Iterable[Answer], expected: Expected, undisturbed: Sequence[Window], limit_seconds: float = MAX_SECONDS
) -> tuple[dict[str, dict[str, float]], list[Violation]]:
    """The violations, and by replica the numbers of small reviews and of failed ones, with the 99th percentile.

    `undisturbed`: the times in which no fault delays reviews. A review that is not admitted counts as
    `WEBHOOK_TIMEOUT`.
    """
    figures, violations = {}, []
    for replica, reviews in _expected_answers(answers, REVIEW, expected).items():
        judged_reviews = [review for review in reviews if is_within(undisturbed, review.at, review.end)]
        failed_reviews = [review for review in judged_reviews if review.fault]
        p99 = percentile([WEBHOOK_TIMEOUT if review.fault else review.seconds for review in judged_reviews])
        figures[replica] = {
            "asked": len(judged_reviews),
            "failed": len(failed_reviews),
            "p99_seconds": round(p99, 3),
        }
        if len(judged_reviews) >= MIN_SAMPLES and p99 >= limit_seconds:
            text = f"one in 100 of {len(judged_reviews)} took {p99:.2f} s or longer, {limit_seconds:.2g} are allowed"
            if failed_reviews:
                text = f"{text}; {len(failed_reviews)} were not admitted, the first: {failed_reviews[0].fault}"
            violations.append(Violation(SLOW, replica, text))
    return figures, violations


def _expected_answers(answers: Iterable[Answer], kind: str, expected: Expected) -> dict[str, list[Answer]]:
    """The answers of each replica in order of time, without those that `expected` does not expect."""
    answers_by_replica = defaultdict(list)
    for answer in sorted(answers, key=lambda answer: answer.at):
        if answer.kind == kind and is_within(expected[answer.replica], answer.at, answer.end):
            answers_by_replica[answer.replica].append(answer)
    return answers_by_replica


def check_log(name: str, lines: Iterable[bytes]) -> tuple[float, list[Violation]]:
    """The highest rate of lines (a second) in the log of one life of a replica, and the violations."""
    lines_by_second: Counter[int] = Counter()
    control_lines, at = 0, 0
    for line in lines:
        if time := _TIME.search(line[:_TIME_SEARCH_BYTES]):
            at = int(datetime.fromisoformat(f"{time[0].decode()}+00:00").timestamp())
        lines_by_second[at] += 1
        control_lines += _CONTROL_CHARACTER.search(line) is not None
    most_lines, most_at = max(
        ((sum(lines_by_second[at + n] for n in range(LOG_WINDOW)), at) for at in list(lines_by_second)), default=(0, 0)
    )
    violations = []
    if most_lines >= MAX_LINES_PER_SECOND * LOG_WINDOW:
        text = f"{most_lines} lines in {LOG_WINDOW} s, fewer than {MAX_LINES_PER_SECOND * LOG_WINDOW:g} are allowed"
        violations.append(Violation(FLOODED, name, text, most_at))
    if control_lines:
        violations.append(Violation(CONTROLS, name, f"in {control_lines} lines"))
    return most_lines / LOG_WINDOW, violations
