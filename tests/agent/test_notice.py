"""A notice of maintenance: who gets the signal, and what ends the wait (docs/concepts/node-maintenance.md#the-signal)."""

import signal
import subprocess
import sys
import threading

import pytest

from agent.api import ApiError
from agent.decision import Notice, open_notice
from agent.notice import Notices
from api import keys
from tests.support.cluster.requests import wait_for

READY = """
import os, pathlib, signal, sys, time
def ready(*_):
    with open(sys.argv[2], "a") as log:
        log.write("signal\\n")
    pathlib.Path(sys.argv[1]).touch()
{late}
signal.signal(signal.SIGUSR1, ready)
pathlib.Path(sys.argv[2]).touch()
time.sleep(60)
"""
SLEEPS = "import time; time.sleep(60)"


def test_the_status_says_when_and_the_spec_by_which_signal():
    policy = {"maintenance": {"notice": {"signal": "SIGUSR1"}}}
    jobset = {"spec": {"failurePolicy": policy}, "status": {"maintenance": {"noticeTime": "t"}}}
    assert open_notice(jobset) == Notice("t", "SIGUSR1")
    for without in (None, {}, {**jobset, "status": None}, {**jobset, "spec": {"failurePolicy": None}}):
        assert open_notice(without) is None
    assert open_notice({**jobset, "status": {"maintenance": {"nodes": [{"name": "n1", "moved": True}]}}}) is None


class FakeApi:
    """Keeps what is reported; refuses as often as `refusals` says."""

    def __init__(self, *refusals: ApiError) -> None:
        self.said: list[str] = []
        self.refusals = list(refusals)
        self.asked = 0

    def acknowledge(self, notice: str) -> None:
        self.asked += 1
        if self.refusals:
            raise self.refusals.pop()
        self.said.append(notice)


class Stage:
    """An agent's thread of notices, whose workers are children of this process."""

    def __init__(self, folder) -> None:
        self.file, self.log, self.workers, self.api = folder / "ready", folder / "log", [], FakeApi()

    def notices(self, api: FakeApi | None = None) -> Notices:
        self.api = api or self.api
        made = Notices(self.file, self.api)
        threading.Thread(target=made.run, daemon=True).start()
        return made

    def worker(self, program: str, late: str = "") -> subprocess.Popen:
        command = [sys.executable, "-c", program.replace("{late}", late), str(self.file), str(self.log)]
        self.workers.append(subprocess.Popen(command))  # noqa: S603 - of this test
        return self.workers[-1]


@pytest.fixture
def workers(tmp_path):
    made = Stage(tmp_path)
    yield made
    for process in made.workers:
        process.kill()
        process.wait()


NOTICE = Notice("2026-01-01T00:00:00Z", "SIGUSR1")


def test_a_worker_that_handles_the_signal_acknowledges_once(workers):
    workers.worker(READY)
    wait_for(workers.log.exists)
    notices = workers.notices()
    notices.receive(NOTICE)
    wait_for(lambda: workers.api.said == [NOTICE.time])
    notices.receive(NOTICE)
    other = NOTICE._replace(time="later")
    notices.receive(other)
    wait_for(lambda: workers.api.said == [NOTICE.time, "later"])
    assert workers.log.read_text() == "signal\n" * 2


def test_a_worker_without_a_handler_lives_on(workers):
    other = workers.worker(SLEEPS)
    workers.worker(READY)
    wait_for(workers.log.exists)
    workers.notices().receive(NOTICE)
    wait_for(lambda: workers.api.said)
    assert other.poll() is None


def test_a_worker_that_starts_later_gets_the_signal_once_it_handles_it(workers):
    workers.notices().receive(NOTICE)
    workers.worker(READY, late="time.sleep(0.5)")
    wait_for(lambda: workers.api.said == [NOTICE.time])


def test_the_file_of_an_earlier_notice_acknowledges_nothing(workers):
    workers.file.touch()
    notices = workers.notices()
    notices.receive(NOTICE)
    wait_for(lambda: not workers.file.exists())
    notices.receive(None)
    workers.file.touch()
    notices.receive(NOTICE._replace(signal="SIGNOTHING"))
    last = NOTICE._replace(time="last")
    notices.receive(last)
    wait_for(lambda: not workers.file.exists())
    workers.file.touch()
    wait_for(lambda: workers.api.said == ["last"])


def test_a_report_that_fails_is_tried_again_and_a_forbidden_one_is_not(workers, monkeypatch):
    monkeypatch.setattr("agent.notice.RETRY_SECONDS", 0.01)
    workers.worker(READY)
    wait_for(workers.log.exists)
    workers.notices(FakeApi(ApiError("away"))).receive(NOTICE)
    wait_for(lambda: workers.api.said == [NOTICE.time])
    forbidden = FakeApi(ApiError("no", forbidden=True))
    notices = workers.notices(forbidden)
    notices.receive(NOTICE)
    wait_for(lambda: forbidden.asked == 1)
    notices.receive(NOTICE._replace(time="next"))
    wait_for(lambda: forbidden.said == ["next"])


def test_an_acknowledgement_ends_with_its_notice(workers):
    workers.worker(READY)
    wait_for(workers.log.exists)
    notices = workers.notices()
    notices.receive(NOTICE)
    wait_for(lambda: notices.is_acknowledged)
    notices.receive(NOTICE._replace(time="next", signal="SIGNOTHING"))
    assert not notices.is_acknowledged
    notices.receive(NOTICE)
    wait_for(lambda: notices.is_acknowledged)
    notices.receive(None)
    assert not notices.is_acknowledged


def test_a_report_that_is_answered_after_the_end_of_its_notice_is_no_acknowledgement(workers, capfd):
    class SlowApi(FakeApi):
        answers = threading.Event()

        def acknowledge(self, notice: str) -> None:
            super().acknowledge(notice)
            self.answers.wait()

    workers.worker(READY)
    wait_for(workers.log.exists)
    api = SlowApi()
    notices = workers.notices(api)
    notices.receive(NOTICE)
    wait_for(lambda: api.said)
    notices.receive(None)
    api.answers.set()
    wait_for(lambda: "the pod says so" in capfd.readouterr().err)
    assert not notices.is_acknowledged


WORKER = 'trap \'touch "$JOBSET_ACKNOWLEDGEMENT_FILE"\' USR1; echo up > "$FOLDER/up"; while :; do sleep 0.1; done'
TIME = "2026-01-01T00:00:00Z"


def begin_attempt(stage, worker: str):
    """A set with a notice, and its agent, whose worker runs attempt 0."""
    stage.jobset()
    policy = stage.get()["spec"]["failurePolicy"] | {
        "maintenance": {"taintKeys": ["drain"], "notice": {"signal": "SIGUSR1", "waitSeconds": 60}}
    }
    body = stage.get() | {"metadata": {"name": "js"}}
    stage.delete()
    stage.create({**body, "spec": {**body["spec"], "failurePolicy": policy}})
    agent = stage.agent(worker, JOBSET_ACKNOWLEDGEMENT_FILE=str(stage.folder / "ready"))
    agent.wait_log("reported attempt 0")
    stage.attempts(current=0)
    stage.file_text("up")
    return agent


def open_notice_of(stage) -> None:
    stage.patch_status(currentInPlaceRestartAttempt=0, maintenance={"noticeTime": TIME, "moveTime": TIME})


@pytest.mark.integration
def test_an_agent_passes_the_notice_on_and_its_pod_says_that_the_worker_is_ready(stage):
    agent = begin_attempt(stage, WORKER)
    open_notice_of(stage)
    agent.wait_log("the worker is ready to move, and the pod says so")
    assert stage.pod()["metadata"]["annotations"][keys.MAINTENANCE_ACKNOWLEDGED] == TIME


@pytest.mark.integration
def test_an_evicted_pod_whose_worker_is_ready_ends_with_the_attempt(stage):
    """The worker ends neither at SIGTERM nor when it is ready."""
    agent = begin_attempt(stage, f"trap '' TERM; {WORKER}")
    agent.tell(signal.SIGTERM)
    agent.wait_log("SIGTERM: waiting for the worker to end")
    open_notice_of(stage)
    agent.wait_log("the worker is ready to move")
    stage.attempts(previous=0, current=0)
    assert agent.ended() == 128 + signal.SIGTERM
