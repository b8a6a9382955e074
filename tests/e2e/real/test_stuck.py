"""Sets that cannot run on a real node: the first line of `jobset explain` names the cause in the kubelet's words."""

import pytest

from tests.support.cluster.jobs import Sets
from tests.support.cluster.requests import wait_for
from tests.support.explain.real_stuck import QUICK, SITUATIONS

pytestmark = pytest.mark.timeout(400)


def test_the_cause_of_three_stuck_sets_is_named(real_sets):
    check(real_sets, QUICK)


@pytest.mark.slow
def test_the_cause_of_every_other_stuck_set_is_named(real_sets):
    check(real_sets, [name for name in SITUATIONS if name not in QUICK])


def check(sets: Sets, names) -> None:
    """All of them at once: most of the time is the kubelet's."""
    for name in names:
        sets.apply(SITUATIONS[name].body)
    left = dict.fromkeys(names, "")

    def all_named() -> bool:
        lines = sets.causes()
        for name in list(left):
            left[name] = lines.get(name, "")
            if all(words in left[name] for words in SITUATIONS[name].names):
                del left[name]
        return not left

    wait_for(all_named, timeout=150, what="the causes", last=lambda: left)
