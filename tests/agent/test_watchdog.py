"""The agent as a watchdog: a process, without any API server."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.cluster import agents
from tests.support.cluster.requests import wait_for

BEAT = 'touch "$JOBSET_HEARTBEAT_FILE"; '
STUCK = """\
import faulthandler, signal, time

def stuck_in_a_collective():
    print("step", flush=True)
    time.sleep(300)

faulthandler.register(signal.SIGUSR1, all_threads=True)
stuck_in_a_collective()
"""


@pytest.fixture
def stuck(tmp_path):
    """A command: a Python program that gives one heartbeat and hangs."""
    (tmp_path / "stuck.py").write_text(STUCK)
    return f"{sys.executable} {tmp_path}/stuck.py"


@pytest.fixture
def start(agent_file, tmp_path):
    """Start an agent whose worker runs this command; after the first heartbeat, a second is all that it may take."""
    started = []

    def begin(command, ignored=(), **env):
        base = {
            "IN_PLACE_RESTART": "false",
            "WORKER_COMMAND": command,
            "FOLDER": str(tmp_path),
            "PROGRESS_DEADLINE_SECONDS": "1",
            "FIRST_HEARTBEAT_SECONDS": "60",
            "TERMINATION_SECONDS": "1",
            "STACK_DUMP_SECONDS": "1",
        }
        if "HEARTBEAT_LOG_PATTERN" not in env:
            base["JOBSET_HEARTBEAT_FILE"] = str(tmp_path / "beat")
        process = agents.Process(agent_file, tmp_path / f"{len(started)}.log", {**base, **env}, ignored=ignored)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.close()


def beats(heartbeat):
    """A command that gives heartbeats for longer than the deadline, and then ends by itself."""
    return f"for n in 1 2 3 4 5; do {heartbeat}; sleep 0.5; done; exit 7"


def test_the_stacks_and_the_last_lines_are_the_termination_message(start, stuck, tmp_path):
    message = tmp_path / "termination-log"
    message.touch()
    options = {"HEARTBEAT_LOG_PATTERN": "step", "STACK_DUMP_SIGNAL": "SIGUSR1"}
    agent = start(stuck, TERMINATION_MESSAGE_PATH=str(message), **options)
    assert agent.ended() == 124
    assert "in stuck_in_a_collective" in message.read_text()
    assert len(message.read_bytes()) <= 1000


class TestHeartbeats:
    def test_a_file_a_pipe_and_lines_of_the_log(self, start, tmp_path):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        started = [
            start(beats('touch "$JOBSET_HEARTBEAT_FILE"')),
            start(beats('echo > "$JOBSET_HEARTBEAT_FILE"'), JOBSET_HEARTBEAT_FILE=str(pipe)),
            start(beats("echo step=$n; echo other >&2"), HEARTBEAT_LOG_PATTERN=r"step=\d+"),
            start(beats("echo waiting for peers"), HEARTBEAT_LOG_PATTERN=r"step=\d+", FIRST_HEARTBEAT_SECONDS="1"),
        ]
        assert [agent.ended() for agent in started] == [7, 7, 7, 124]
        assert started[2].log().count("other\n") == 5

    def test_the_first_one_has_more_time(self, start):
        agent = start("sleep 1.5; exit 7")
        assert agent.ended() == 7

    def test_without_a_watchdog_the_agent_only_runs_the_worker(self, start):
        names = ("PROGRESS_DEADLINE_SECONDS", "JOBSET_HEARTBEAT_FILE", "FIRST_HEARTBEAT_SECONDS",
                 "TERMINATION_SECONDS", "STACK_DUMP_SECONDS")  # fmt: skip
        assert start("exit 7", **dict.fromkeys(names, "")).ended() == 7

    @pytest.mark.slow
    def test_an_agent_that_was_stopped_begins_the_time_again(self, start, tmp_path):
        """As a whole machine that is suspended: nobody can give a heartbeat meanwhile."""
        agent = start(
            'echo $$ > "$FOLDER/pid"; while :; do sleep 0.2;'
            ' test -e "$FOLDER/go" && touch "$JOBSET_HEARTBEAT_FILE"; done',
            PROGRESS_DEADLINE_SECONDS="3",
            FIRST_HEARTBEAT_SECONDS="3",
        )
        wait_for((tmp_path / "pid").exists, what="the worker")
        agent.tell(signal.SIGSTOP)
        time.sleep(5.5)
        agent.tell(signal.SIGCONT)
        agent.wait_log("the agent was stopped for")
        (tmp_path / "go").touch()
        time.sleep(3.5)
        assert agent.running
        assert "hangs" not in agent.log()


class TestOutput:
    @pytest.mark.parametrize("code", [0, 3])
    def test_it_is_passed_on_unchanged_to_its_end(self, start, tmp_path, code):
        data = bytes(range(256)) * 3000
        (tmp_path / "data").write_bytes(data)
        agent = start(f'cat "$FOLDER/data"; exit {code}', HEARTBEAT_LOG_PATTERN="x")
        assert agent.ended() == code
        found = (tmp_path / "0.log").read_bytes()
        assert len(found) > len(data)
        assert data in found.replace(b"in-place-restart-agent: the worker ended with exit code %d\n" % code, b"")

    def test_lines_without_end_take_no_memory(self, start, tmp_path):
        agent = start(
            'head -c 100000000 /dev/zero; echo > "$FOLDER/done"; exec sleep 300',
            HEARTBEAT_LOG_PATTERN="step",
            PROGRESS_DEADLINE_SECONDS="60",
        )
        wait_for((tmp_path / "done").exists, what="100 MB of output")
        assert agent.rss_kib() < 40 << 10
        (tmp_path / "0.log").write_bytes(b"")

    def test_the_worker_goes_on_if_nobody_reads_it(self, agent_file, tmp_path):
        reader, writer = os.pipe()
        env = {
            "PATH": os.environ["PATH"],
            "SHELL": "/bin/sh",
            "IN_PLACE_RESTART": "false",
            "WORKER_COMMAND": f"sleep 0.5; yes | head -c 1000000; touch {tmp_path}/done",
            "PROGRESS_DEADLINE_SECONDS": "60",
            "HEARTBEAT_LOG_PATTERN": "step",
        }
        with subprocess.Popen(["python3", "-IBS", agent_file], env=env, stdout=writer) as agent:  # noqa: S603, S607
            os.close(writer)
            os.close(reader)
            assert agent.wait(20) == 0
        assert (tmp_path / "done").exists()


class TestHang:
    def test_the_worker_is_ended_with_the_code_of_a_hang(self, start, tmp_path):
        started = time.monotonic()
        agent = start(f'echo $$ > "$FOLDER/pid"; {BEAT} exec sleep 300', HANG_EXIT_CODE="75")
        assert agent.ended() == 75
        assert 1 <= time.monotonic() - started < 4, "the deadline and three seconds"
        assert "the worker hangs: no heartbeat for 1 s" in agent.log()
        assert not agents.alive(int((tmp_path / "pid").read_text()))

    def test_a_file_that_never_was_is_named(self, start, tmp_path):
        path = tmp_path / "no" / "beat"
        agent = start("exec sleep 300", JOBSET_HEARTBEAT_FILE=str(path), FIRST_HEARTBEAT_SECONDS="1")
        assert agent.ended() == 124
        assert f"no heartbeat for 1 s ({path}: No such file or directory)" in agent.log()

    def test_a_worker_that_ignores_sigterm_is_killed_with_all_it_started(self, start, tmp_path):
        deep = f'setsid sh -c \'trap "" TERM; echo $$ > "$FOLDER/deep"; {BEAT} sleep 300; :\' &'
        agent = start(f'trap "" TERM; echo $$ > "$FOLDER/pid"; {deep} sleep 300; sleep 300')
        agent.wait_log("sending SIGTERM to the worker")
        agent.tell(signal.SIGTERM)
        assert agent.ended() == 124, "of two reasons to end the first counts"
        assert "has not ended 1 s after SIGTERM" in agent.log()
        for name in ("pid", "deep"):
            assert not agents.alive(int((tmp_path / name).read_text()))

    def test_a_worker_may_save_its_work_and_its_own_code_does_not_count(self, start, tmp_path):
        agent = start(
            f"trap 'echo saved > \"$FOLDER/saved\"; exit 0' TERM; {BEAT} while :; do sleep 0.1; done",
            TERMINATION_SECONDS="60",
        )
        assert agent.ended() == 124
        assert (tmp_path / "saved").exists()

    @pytest.mark.slow
    def test_a_worker_that_is_stopped_hangs_and_is_killed(self, start):
        assert start(f"{BEAT} kill -STOP $$").ended() == 124

    @pytest.mark.slow
    def test_a_worker_that_is_ending_already_is_left_alone(self, start, tmp_path):
        agent = start(
            f"trap 'sleep 3; echo saved > \"$FOLDER/saved\"; exit 0' TERM; {BEAT} while :; do sleep 0.1; done"
        )
        wait_for((tmp_path / "beat").exists, what="the worker")
        agent.tell(signal.SIGTERM)
        assert agent.ended() == 143
        assert (tmp_path / "saved").exists()


class TestStackDump:
    def test_only_processes_that_handle_the_signal_get_it(self, start, stuck):
        """A launcher without a handler would end by it, and its workers before they have dumped anything."""
        agent = start(f"(setsid {stuck}); true", STACK_DUMP_SIGNAL="USR1", HEARTBEAT_LOG_PATTERN="step")
        assert agent.ended() == 124
        assert "in stuck_in_a_collective" in agent.log()

    def test_if_nobody_handles_it_the_log_says_what_to_do(self, start):
        agent = start(f"{BEAT} exec sleep 300", STACK_DUMP_SIGNAL="SIGUSR1")
        assert agent.ended() == 124
        assert "faulthandler.register(signal.SIGUSR1, all_threads=True)" in agent.log()

    def test_by_a_command(self, start):
        agent = start(
            f'echo "worker is $$"; {BEAT} exec sleep 300',
            STACK_DUMP_COMMAND='echo "dump of $WORKER_PID"',
            STACK_DUMP_SECONDS="60",
        )
        assert agent.ended() == 124
        worker = agent.log().partition("worker is ")[2].split()[0]
        assert f"dump of {worker}\n" in agent.log()

    def test_a_command_that_hangs_itself_is_killed_before_the_worker_ends(self, start, tmp_path):
        dump = 'echo $$ > "$FOLDER/dump"; trap "" TERM; sleep 300; :'
        gone = 'while kill -0 "$(cat "$FOLDER/dump")"; do sleep 0.02; done; touch "$FOLDER/gone"; exit'
        worker = f"trap '{gone}' TERM; {BEAT} while :; do sleep 0.1; done"
        agent = start(worker, STACK_DUMP_COMMAND=dump, TERMINATION_SECONDS="5")
        assert agent.ended() == 124
        assert "STACK_DUMP_COMMAND has not ended after 1 s: killing it" in agent.log()
        assert (tmp_path / "gone").exists()


@pytest.mark.integration
class TestInPlace:
    HANGS = {"PROGRESS_DEADLINE_SECONDS": "1", "TERMINATION_SECONDS": "60", "HEARTBEAT_LOG_PATTERN": "step"}

    def test_the_time_at_the_barrier_does_not_count(self, stage):
        stage.jobset()
        agent = stage.agent("exec sleep 300", **self.HANGS)
        agent.wait_log("reported attempt 0")
        with pytest.raises(subprocess.TimeoutExpired):
            agent.ended(1.5)
        stage.attempts(current=0)
        assert agent.ended() == 124

    def test_the_end_of_the_attempt_cuts_short_the_end_of_a_hang(self, stage):
        stage.jobset()
        agent = stage.agent('trap "" TERM; while :; do sleep 0.1; done', **self.HANGS)
        agent.wait_log("reported attempt 0")
        stage.attempts(current=0)
        agent.wait_log("sending SIGTERM to the worker")
        stage.attempts(current=0, previous=0)
        assert agent.ended() == 1
