"""dependsOn: what to do about a wait that cannot be, in words that do not contradict each other."""

import pytest

from api.features import FeatureGates
from tests.support.objects.creates import create_errors
from tests.support.objects.jobsets import JSON, jobset, rjob, stored


def waiting(name: str, *others: str) -> JSON:
    return rjob(name, dependsOn=[{"name": other, "status": "Ready"} for other in others])


LATER = "only one that stands earlier can be waited for: "


@pytest.mark.parametrize(
    ("rjobs", "fixes"),
    [
        ((waiting("a", "x"),), ["remove it", "there is none of that name; remove it: nothing stands earlier"]),
        (
            (waiting("a", "b"), rjob("b")),
            ['remove it, or move "a" below what it waits for', f'{LATER}move "b" above "a"'],
        ),
        (
            (waiting("a", "b"), waiting("b", "a")),
            ["remove it", f'{LATER}"b", "a" wait for each other: remove one of these waits'],
        ),
        (
            (rjob("first"), waiting("a", "b"), waiting("b", "first", "c"), waiting("c", "a")),
            [
                f"{LATER}{names} wait for each other: remove one of these waits"
                for names in ('"b", "c", "a"', '"c", "a", "b"')
            ],
        ),
        (
            (rjob("first"), waiting("a", "b"), waiting("b", "c"), rjob("c")),
            [f'{LATER}move "b" above "a"', f'{LATER}move "c" above "b"'],
        ),
    ],
)
def test_what_to_do_about_a_wait(rjobs: tuple[JSON, ...], fixes: list[str]):
    assert [error.fix for error in create_errors(stored(jobset(*rjobs)), FeatureGates())] == fixes
