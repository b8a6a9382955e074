"""An agent that continues when its attempt is over, and starts its worker again, against a real API server."""

import os
import signal
import time

import pytest

from tests.support.cluster import agents
from tests.support.cluster.requests import wait_for

pytestmark = pytest.mark.integration

ENDLESS = 'echo $$ > "$FOLDER/pid"; exec sleep 300'


def worker_pid(stage):
    return int(stage.file_text("pid"))


def test_the_worker_alone_starts_again_in_the_next_attempt(stage):
    """Twice, so that nothing of one worker is taken for the next; its processes are gone before the report."""
    tree = '(setsid sh -c \'echo $$ > "$FOLDER/deep"; trap "" TERM; sleep 300; :\' & wait) &'
    stage.jobset()
    agent = stage.agent(f'{tree} echo $$ > "$FOLDER/pid"; wait', RESTART_WORKER_ONLY="true")
    agent.wait_log("reported attempt 0")
    for attempt in range(2):
        stage.attempts(current=attempt, previous=attempt - 1 if attempt else None)
        pids = [worker_pid(stage), int(stage.file_text("deep"))]
        for name in ("pid", "deep"):
            (stage.folder / name).unlink()
        stage.attempts(current=attempt, previous=attempt)
        wait_for(lambda n=attempt + 1: stage.reported_attempt() == str(n))
        assert not any(map(agents.alive, pids))
        assert not (stage.folder / "pid").exists(), "the barrier is up again"
    stage.attempts(current=2, previous=1)
    os.kill(worker_pid(stage), signal.SIGKILL)
    assert agent.ended() == 137, "a worker that fails itself is the kubelet's to start again"


def test_a_worker_that_ends_by_itself_in_the_second_attempt_ends_the_agent(stage):
    stage.jobset()
    ends = '[ -e "$FOLDER/again" ] && exit 5; touch "$FOLDER/again"; ' + ENDLESS
    agent = stage.agent(ends, RESTART_WORKER_ONLY="true")
    agent.wait_log("reported attempt 0")
    stage.attempts(current=0)
    worker_pid(stage)
    stage.attempts(current=0, previous=0)
    agent.wait_log("reported attempt 1")
    stage.attempts(current=1, previous=0)
    assert agent.ended() == 5


def test_each_worker_has_a_watchdog_of_its_own(stage):
    """That of the first is silent while the barrier is up; that of the second ends it."""
    watchdog = {"PROGRESS_DEADLINE_SECONDS": "1", "FIRST_HEARTBEAT_SECONDS": "60", "TERMINATION_SECONDS": "1"}
    stage.jobset()
    agent = stage.agent(f"echo step; {ENDLESS}", RESTART_WORKER_ONLY="true", HEARTBEAT_LOG_PATTERN="st+ep", **watchdog)
    agent.wait_log("reported attempt 0")
    stage.attempts(current=0)
    worker_pid(stage)
    stage.attempts(current=0, previous=0)
    agent.wait_log("reported attempt 1")
    time.sleep(1.5)
    assert "hangs" not in agent.log()
    stage.attempts(current=1, previous=0)
    assert agent.ended() == 124
    assert agent.log().count("step\n") == 2


class TestAWorkerThatFails:
    """With RESTART_FAILED_WORKER the container goes on."""

    def failed_once(self, stage, command, **env):
        """An agent whose worker has failed in attempt 0."""
        stage.jobset()
        agent = stage.agent(command, RESTART_FAILED_WORKER="true", **env)
        agent.wait_log("reported attempt 0")
        stage.attempts(current=0)
        agent.wait_log("reported attempt 1")
        assert stage.reported_attempt() == "1"
        return agent

    def test_ten_times_in_a_row(self, stage):
        agent = self.failed_once(stage, 'echo $$ >> "$FOLDER/pids"; exit 7')
        for attempt in range(1, 10):
            assert stage.reported_failure() == "7 Error"
            stage.attempts(current=attempt, previous=attempt - 1)
            agent.wait_log(f"reported attempt {attempt + 1}")
        assert agent.running
        assert len(stage.file_text("pids").split()) == 10

    def test_its_processes_are_gone_and_the_next_report_says_nothing_of_it(self, stage):
        leaves_one = '(setsid sleep 300 & echo $! > "$FOLDER/deep"); '
        fails_once = '[ -e "$FOLDER/again" ] || { touch "$FOLDER/again"; exit 5; }; '
        agent = self.failed_once(stage, leaves_one + fails_once + ENDLESS)
        assert not agents.alive(int(stage.file_text("deep")))
        stage.attempts(current=1, previous=0)
        worker_pid(stage)
        stage.attempts(current=1, previous=1)
        agent.wait_log("reported attempt 2")
        assert stage.reported_failure() is None

    def test_a_hang_is_reported_as_one(self, stage):
        watchdog = {"PROGRESS_DEADLINE_SECONDS": "1", "JOBSET_HEARTBEAT_FILE": str(stage.folder / "beat")}
        agent = self.failed_once(stage, ENDLESS, TERMINATION_SECONDS="1", **watchdog)
        assert stage.reported_failure() == "124 Hang"
        stage.attempts(current=1, previous=0)
        agent.wait_log("reported attempt 2")

    def test_the_last_lines_of_its_stderr_are_reported(self, stage):
        agent = self.failed_once(stage, "echo out; echo no GPU >&2; exit 7")
        assert stage.reported_failure() == "7 Error\nno GPU"
        assert "out\n" in agent.log()
        assert "no GPU\n" in agent.log()

    @pytest.mark.parametrize("ends", ["the set fails", "the pod is deleted", "the strategy changes"])
    def test_the_container_ends_as_the_worker_did_when(self, stage, ends):
        agent = self.failed_once(stage, "exit 9")
        match ends:
            case "the set fails":
                stage.patch_status(terminalState="Failed")
            case "the pod is deleted":
                agent.tell(signal.SIGTERM)
            case "the strategy changes":
                stage.annotate(disable_in_place_restart="")
        assert agent.ended() == 9

    def test_success_ends_the_container(self, stage):
        stage.jobset()
        agent = stage.agent("exit 0", RESTART_FAILED_WORKER="true")
        agent.wait_log("reported attempt 0")
        stage.attempts(current=0)
        assert agent.ended() == 0
