"""Whatever strangers do: liveness probes succeed, small reviews are fast, and the log keeps other lines."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from dev.chaos.checks.admission import Window
from dev.chaos.checks.calm import FEWEST, MAX_SECONDS, percentile, within
from dev.chaos.checks.violation import Violation

REFUSED, LATE, SLOW = "liveness refused", "liveness late", "small review slow"
FLOODED, CONTROLS = "log flooded", "control characters in the log"

LIVENESS, REVIEW = "liveness", "review"

NO_ANSWER = "no answer in time"

WEBHOOK_TIMEOUT = 10.0
"""Seconds that an API server waits for an answer."""

TIMES_SLOWER = 4.0
"""Beside a neighbour, the 99th percentile of reviews may be this many times that without one."""

MAX_LINES = 200.0
"""Log lines of a replica in a second, at most, as an average over `LOG_WINDOW`."""

LOG_WINDOW = 10
"""Seconds."""

_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_TIME_WITHIN = 80
"""Bytes of a line that contain its time; a line without one belongs to the line before it."""
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")


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
"""When each replica should answer."""


def check_liveness(answers: Iterable[Answer], expected: Expected) -> tuple[dict[str, int], list[Violation]]:
    """How many probes there were, how many were refused, and how many had no answer in time.

    Each refused probe is a violation, and so are two late ones in a row: a busy machine may delay one.
    """
    figures = Counter[str](asked=0, refused=0, late=0)
    violations = []
    for replica, probes in _expected_answers(answers, LIVENESS, expected).items():
        refused = [probe for probe in probes if probe.fault not in {"", NO_ANSWER}]
        late = [probe for probe in probes if probe.fault == NO_ANSWER]
        hung = [probe for before, probe in pairwise(probes) if before.fault == probe.fault == NO_ANSWER]
        figures.update(asked=len(probes), refused=len(refused), late=len(late))
        for rule, found in ((REFUSED, refused), (LATE, hung)):
            if found:
                text = f"{len(found)} of {len(probes)} probes; the first: {found[0].fault}"
                violations.append(Violation(rule, replica, text, found[0].at))
    return dict(figures), violations


def allowed_seconds(answers: Iterable[Answer], expected: Expected, alone: Sequence[Window]) -> float:
    """The limit of the 99th percentile of reviews: a second, or `TIMES_SLOWER` times that in `alone`, undisturbed.

    On a machine with few cores, three replicas, the control plane, the load and the neighbour compete, and on a shared
    machine a review takes a second even without a neighbour. So only the ratio shows the effect of strangers.
    """
    durations = [
        WEBHOOK_TIMEOUT if review.fault else review.seconds
        for reviews in _expected_answers(answers, REVIEW, expected).values()
        for review in reviews
        if within(alone, review.at, review.end)
    ]
    return max(MAX_SECONDS, TIMES_SLOWER * percentile(durations)) if len(durations) >= FEWEST else MAX_SECONDS


def check_reviews(
    answers: Iterable[Answer], expected: Expected, undisturbed: Sequence[Window], allowed: float = MAX_SECONDS
) -> tuple[dict[str, dict[str, float]], list[Violation]]:
    """For each replica: how many small reviews it had, how many it did not admit, and the 99th percentile.

    `undisturbed`: when no fault delays reviews. One that is not admitted counts as `WEBHOOK_TIMEOUT`.
    `allowed`: what 99 of 100 may take.
    """
    figures, violations = {}, []
    for replica, reviews in _expected_answers(answers, REVIEW, expected).items():
        judged = [review for review in reviews if within(undisturbed, review.at, review.end)]
        failed = [review for review in judged if review.fault]
        most = percentile([WEBHOOK_TIMEOUT if review.fault else review.seconds for review in judged])
        figures[replica] = {"asked": len(judged), "failed": len(failed), "p99_seconds": round(most, 3)}
        if len(judged) >= FEWEST and most >= allowed:
            text = f"one in 100 of {len(judged)} took {most:.2f} s or longer, {allowed:.2g} are allowed"
            if failed:
                text = f"{text}; {len(failed)} were not admitted, the first: {failed[0].fault}"
            violations.append(Violation(SLOW, replica, text))
    return figures, violations


def _expected_answers(answers: Iterable[Answer], kind: str, expected: Expected) -> dict[str, list[Answer]]:
    """The answers of each replica in order of time, without those during which it was not up all the time."""
    found = defaultdict(list)
    for answer in sorted(answers, key=lambda answer: answer.at):
        if answer.kind == kind and within(expected[answer.replica], answer.at, answer.end):
            found[answer.replica].append(answer)
    return found


def check_log(name: str, lines: Iterable[bytes]) -> tuple[float, list[Violation]]:
    """The most lines a second in the log of one life of a replica, as an average over `LOG_WINDOW`."""
    seconds: Counter[int] = Counter()
    controls, at = 0, 0
    for line in lines:
        if time := _TIME.search(line[:_TIME_WITHIN]):
            at = int(datetime.fromisoformat(f"{time[0].decode()}+00:00").timestamp())
        seconds[at] += 1
        controls += _CONTROL.search(line) is not None
    most, when = max(((sum(seconds[at + n] for n in range(LOG_WINDOW)), at) for at in list(seconds)), default=(0, 0))
    violations = []
    if most >= MAX_LINES * LOG_WINDOW:
        text = f"{most} lines in {LOG_WINDOW} s, fewer than {MAX_LINES * LOG_WINDOW:g} are allowed"
        violations.append(Violation(FLOODED, name, text, when))
    if controls:
        violations.append(Violation(CONTROLS, name, f"in {controls} lines"))
    return most / LOG_WINDOW, violations
