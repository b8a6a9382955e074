"""What an agent that goes on after the failure of its worker reports, and when it ends with it."""

import contextlib

import pytest

from agent.api import ApiError
from agent.decision import Action
from agent.follow import Continuation, JobSetWatcher
from tests.agent.test_follow import FAILS, Script, StopTestError, follow, jobset


class TestTheWorkerFails:
    """The agent goes on and reports how, from a fresh list."""

    def test_it_reports_the_next_attempt_at_once_and_starts_it_with_the_others(self):
        script = Script([jobset(), jobset(None, 0)], [[jobset(None, 0), FAILS], [jobset(0, 0), jobset(0, 1)]])
        assert follow(script, Script()) == ([Action.LIFT, Action.LIFT], [])
        assert script.reported == [0, (1, "3 Error")]
        assert script.interrupted

    def test_what_was_said_of_one_attempt_is_not_said_of_the_next(self):
        script = Script(
            [jobset(), jobset(None, 0)], [[jobset(None, 0), FAILS], [jobset(0, 1), jobset(1, 1)]], [None, None]
        )
        beside = Script()
        assert follow(script, beside)[0] == [Action.LIFT, Action.LIFT, "ended"]
        assert beside.reported == [2, "closed"]

    def test_a_report_that_fails_is_sent_again_with_the_failure(self):
        script = Script([jobset(), *[jobset(None, 0)] * 2], [[jobset(None, 0), FAILS]], [None, ApiError("cut"), None])
        assert len(follow(script, Script())[1]) == 1
        assert script.reported == [0, (1, "3 Error"), (1, "3 Error")]

    def test_when_the_set_fails_the_container_ends_as_the_worker_did(self):
        script = Script([jobset(), jobset(None, 0)], [[jobset(None, 0), FAILS], [jobset(None, 0, state="Failed")]])
        assert follow(script, Script()) == ([Action.LIFT, Action.FAIL], [])

    @pytest.mark.parametrize("now", [jobset(None, 0, state="Failed"), jobset(None, 0, strategy="Recreate")])
    def test_a_set_that_does_not_restart_in_place_any_more_sees_the_container_end(self, now):
        script = Script([jobset(), now], [[jobset(None, 0), FAILS]])
        assert follow(script, Script()) == ([Action.LIFT, Action.FAIL], [])
        assert script.reported == [0]

    def test_where_the_report_is_forbidden_the_container_ends(self):
        """By an admission policy of an earlier version, which knows one annotation."""
        script = Script([jobset(), jobset(None, 0)], [[jobset(None, 0), FAILS]], [None, ApiError("no", forbidden=True)])
        assert follow(script, Script()) == ([Action.LIFT, Action.FAIL], [])

    def test_while_another_worker_has_failed_it_is_said_with_the_report_that_is_due(self):
        script = Script([jobset()], [[jobset(None, 0), jobset(0, 0), jobset(0, 1)]])
        beside = Script()
        done = []

        def end_worker():
            done.append("ended")
            watcher.report_failure("3 Error")

        watcher = JobSetWatcher(script, done.append, lambda _: None, Continuation(end_worker, beside))
        with contextlib.suppress(StopTestError):
            watcher.run()
        assert done == [Action.LIFT, "ended", Action.LIFT]
        assert beside.reported == [(1, "3 Error"), "closed"]
