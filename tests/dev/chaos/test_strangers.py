"""What holds whatever strangers do: each check finds its violation, and nothing without one."""

import math

import pytest

from dev.chaos.checks import strangers
from dev.chaos.checks.strangers import LIVENESS, NO_ANSWER, REVIEW, Answer

THERE = {"replica-0": [(100.0, 200.0), (250.0, math.inf)]}
ALWAYS = [(0.0, math.inf)]


def probes(*faults: str, begin: float = 110) -> list[Answer]:
    """One a second."""
    return [
        Answer("replica-0", LIVENESS, begin + number, 1.0 if fault == NO_ANSWER else 0.1, fault)
        for number, fault in enumerate(faults)
    ]


@pytest.mark.parametrize("fault", ["HTTP 503", "ConnectionRefusedError"])
def test_a_single_probe_of_liveness_that_is_refused_is_found(fault):
    figures, [violation] = strangers.check_liveness(probes("", fault, ""), THERE)
    assert (violation.rule, violation.subject, violation.at) == (strangers.REFUSED, "replica-0", 111)
    assert fault in violation.text
    assert figures == {"asked": 3, "refused": 1, "late": 0}


def test_two_probes_of_liveness_that_are_late_one_after_the_other_are_found():
    figures, violations = strangers.check_liveness(probes("", NO_ANSWER, "", NO_ANSWER), THERE)
    assert (figures["late"], violations) == (2, [])
    late = probes(NO_ANSWER, NO_ANSWER)
    for order in (late, late[::-1]):
        _, [violation] = strangers.check_liveness(order, THERE)
        assert (violation.rule, violation.at) == (strangers.LATE, 111)


@pytest.mark.parametrize("begin", [99.5, 199.95, 220.0], ids=["before", "as it ended", "between"])
def test_a_replica_that_cannot_be_there_may_refuse(begin):
    assert strangers.check_liveness(probes("HTTP 503", begin=begin), THERE) == (
        {"asked": 0, "refused": 0, "late": 0},
        [],
    )
    assert strangers.check_liveness(probes("HTTP 503", begin=260), THERE)[1]


def reviews(seconds: float, number: int, *, fault: str = "", begin: float = 110) -> list[Answer]:
    return [Answer("replica-0", REVIEW, begin + at / 4, seconds, fault) for at in range(number)]


@pytest.mark.parametrize("slow", [reviews(1.5, 2), reviews(0.001, 2, fault="HTTP 200, code 429")], ids=["slow", "no"])
def test_more_than_one_in_100_small_reviews_slow_or_not_admitted_is_found(slow):
    quick = reviews(0.1, 100)
    figures, violations = strangers.check_reviews([*quick, *slow[:1]], THERE, ALWAYS)
    assert (figures["replica-0"]["p99_seconds"], violations) == (0.1, [])
    figures, [violation] = strangers.check_reviews([*quick, *slow], THERE, ALWAYS)
    assert (violation.rule, violation.subject) == (strangers.SLOW, "replica-0")
    assert figures["replica-0"]["asked"] == 102
    assert figures["replica-0"]["failed"] == sum(bool(answer.fault) for answer in slow)
    assert figures["replica-0"]["p99_seconds"] >= 1


def test_few_reviews_those_beside_a_fault_and_their_probes_are_not_judged():
    slow = reviews(1.5, 120)
    assert strangers.check_reviews(slow, THERE, [(0.0, 110.0)]) == (
        {"replica-0": {"asked": 0, "failed": 0, "p99_seconds": 0.0}},
        [],
    )
    assert strangers.check_reviews(slow[:99], THERE, ALWAYS)[1] == []
    assert strangers.check_reviews(probes(*[NO_ANSWER] * 80), THERE, ALWAYS) == ({}, [])
    assert strangers.check_reviews(slow, THERE, ALWAYS)[1], "the same reviews without the fault"


def test_reviews_may_take_a_second_or_four_times_what_they_took_before_the_neighbour():
    alone = [(105.0, 140.0)]
    for seconds, allowed in ((0.01, 1.0), (0.25, 1.0), (0.5, 2.0)):
        before, beside = reviews(seconds, 110), reviews(9.0, 60, begin=150)
        assert strangers.allowed_seconds([*before, *beside], THERE, alone) == allowed
    few = reviews(0.5, 99)
    assert strangers.allowed_seconds(few, THERE, alone) == 1.0, "too few to tell"
    slow = reviews(1.5, 120)
    assert strangers.check_reviews(slow, THERE, ALWAYS, 2.0)[1] == []
    assert strangers.check_reviews(slow, THERE, ALWAYS, 1.5)[1]


def lines(number: int, seconds: int, text: str = "GET / failed") -> list[bytes]:
    """So many in each of so many seconds."""
    return [
        f"2026-11-26T23:59:{at:02}.123Z [info    ] {text}\n".encode() for at in range(seconds) for _ in range(number)
    ]


def test_a_log_that_is_flooded_for_ten_seconds_is_found():
    most, [violation] = strangers.check_log("replica-0-1", lines(200, 10))
    assert (most, violation.rule, violation.subject) == (200, strangers.FLOODED, "replica-0-1")
    assert strangers.check_log("replica-0-1", lines(199, 30)) == (199, [])
    assert strangers.check_log("replica-0-1", lines(1000, 1)) == (100, []), "a short burst"
    assert strangers.check_log("replica-0-1", []) == (0, [])


def test_a_line_without_a_time_counts_with_the_one_before_it():
    trace = [b"Traceback (most recent call last):\n"] * 1999
    assert strangers.check_log("replica-0-1", [*lines(1, 1), *trace])[1]
    json_line = b'{"level":"info","ts":"2026-11-26T23:59:01Z","msg":"ok"}\n'
    assert strangers.check_log("replica-0-1", [*[json_line] * 1000, *lines(1000, 1)])[0] == 200


@pytest.mark.parametrize("text", ["\x1b[2J", "\x85", "\u2028", "\u2029", "\x07", "\r", "\x7f"])
def test_control_characters_in_a_log_are_found(text):
    _, [violation] = strangers.check_log("replica-0-1", lines(1, 3, f"name{text}"))
    assert (violation.rule, violation.text) == (strangers.CONTROLS, "in 3 lines")
    assert strangers.check_log("replica-0-1", lines(1, 3, repr(text) + "\tÄ 日本"))[1] == []
