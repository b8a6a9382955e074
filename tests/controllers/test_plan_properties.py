"""Invariants of the reconcile loop over random histories, planned on stale caches and carried out under faults.

The machine moves three parties in any order: the cluster (`tests.support.model.stale`: Job controller, garbage collector,
nodes that fail, pods that are late, agents that restart their workers in place), its
users (spec changes that admission allows, foreign Jobs and Jobs with invalid labels, a JobSet that is deleted and created again), and one
controller process (`tests.support.model.replica`) whose caches lag, jump and repeat, whose writes are refused or unanswered,
and which crashes between any two of them. `tests.support.model.ledger` judges every write. At the end the faults stop, and the
set has to come to rest with exactly the Jobs that should be there, and to complete when they do.
"""

import pytest
from hypothesis import settings

from tests.support.model.histories import CrowdedHistories, Histories, InPlaceHistories, RuledHistories, schedules


@pytest.fixture(scope="module", autouse=True)
def _figure(request):
    """Say at the end how many schedules were run."""
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\nstale-cache schedules run: {schedules['run']}")  # noqa: T201 -- the figure that was asked for


@pytest.mark.no_cover
class TestHistories(Histories.TestCase):
    """Some schedules, always."""

    settings = settings(max_examples=50, stateful_step_count=50, deadline=None)


@pytest.mark.no_cover
class TestRuledHistories(RuledHistories.TestCase):
    """A few of those, always."""

    settings = settings(max_examples=50, stateful_step_count=50, deadline=None)


@pytest.mark.no_cover
class TestInPlaceHistories(InPlaceHistories.TestCase):
    """A few of those, always."""

    settings = settings(max_examples=20, stateful_step_count=50, deadline=None)


@pytest.mark.no_cover
class TestCrowdedHistories(CrowdedHistories.TestCase):
    """A few of those, always."""

    settings = settings(max_examples=30, stateful_step_count=50, deadline=None)


@pytest.mark.slow
@pytest.mark.timeout(1800)
class TestManyCrowdedHistories(CrowdedHistories.TestCase):
    """The same, for long."""

    settings = settings(max_examples=3_000, stateful_step_count=50, deadline=None)


@pytest.mark.slow
@pytest.mark.timeout(1800)
class TestManyInPlaceHistories(InPlaceHistories.TestCase):
    """The same, for long."""

    settings = settings(max_examples=3_000, stateful_step_count=50, deadline=None)


@pytest.mark.slow
@pytest.mark.timeout(1800)
class TestManyRuledHistories(RuledHistories.TestCase):
    """The same, for long."""

    settings = settings(max_examples=3_000, stateful_step_count=50, deadline=None)


@pytest.mark.slow
@pytest.mark.timeout(1800)
class TestManyHistories(Histories.TestCase):
    """The same machine, for long."""

    settings = settings(max_examples=10_000, stateful_step_count=50, deadline=None)
