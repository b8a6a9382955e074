"""What the agent makes of the options of its watchdog, and what it says if they are wrong."""

import os
import signal

import pytest

from agent.settings import HELP, read_settings
from agent.watchdog_settings import OPTIONS
from tests.agent.test_settings import problems


@pytest.fixture
def env(tmp_path):
    return {
        "IN_PLACE_RESTART": "false",
        "WORKER_COMMAND": "true",
        "SHELL": "/bin/sh",
        "PROGRESS_DEADLINE_SECONDS": "300",
        "JOBSET_HEARTBEAT_FILE": str(tmp_path / "beat"),
    }


def test_defaults(env):
    watchdog = read_settings(env).watchdog
    assert (watchdog.deadline, watchdog.first_deadline, watchdog.exit_code) == (300, 300, 124)
    assert (watchdog.dump_seconds, watchdog.termination_seconds) == (10, 10)
    assert (watchdog.pattern, watchdog.dump_signal, watchdog.dump_command) == (None, None, "")


def test_without_a_deadline_there_is_none(env):
    for name in ("PROGRESS_DEADLINE_SECONDS", "JOBSET_HEARTBEAT_FILE"):
        env[name] = ""
    assert read_settings(env).watchdog is None


def test_without_in_place_restart_nothing_of_the_cluster_is_needed(env):
    settings = read_settings(env)
    assert (settings.in_place, settings.jobset, settings.namespace) == (False, "", "")
    assert "JOBSET_NAME is not set" in problems({**env, "IN_PLACE_RESTART": "true"})
    assert "nothing that the agent could do" in problems({**env, "WORKER_COMMAND": ""})
    assert "set true or false" in problems({**env, "IN_PLACE_RESTART": "no"})


@pytest.mark.parametrize("name", OPTIONS)
def test_options_without_a_deadline_are_named(env, name):
    del env["PROGRESS_DEADLINE_SECONDS"], env["JOBSET_HEARTBEAT_FILE"]
    assert problems({**env, name: "x"}) == f"{name} is set without PROGRESS_DEADLINE_SECONDS: set both or none"


@pytest.mark.parametrize("name", ["PROGRESS_DEADLINE_SECONDS", "IN_PLACE_RESTART", *OPTIONS])
def test_help_teaches_each_option(name):
    assert f"\n  {name} " in HELP


def test_the_lines_of_the_help_fit_into_a_terminal():
    assert max(map(len, HELP.splitlines())) <= 120


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"WORKER_COMMAND": "", "IN_PLACE_RESTART": ""}, "needs WORKER_COMMAND"),
        ({"JOBSET_HEARTBEAT_FILE": ""}, "needs JOBSET_HEARTBEAT_FILE or HEARTBEAT_LOG_PATTERN"),
        ({"JOBSET_HEARTBEAT_FILE": "beat"}, "set an absolute path"),
        ({"JOBSET_HEARTBEAT_FILE": "/dev/null"}, "neither a file nor a named pipe"),
        ({"JOBSET_HEARTBEAT_FILE": "/tmp"}, "neither a file nor a named pipe"),
        ({"HEARTBEAT_LOG_PATTERN": "(step"}, "not a regular expression: missing )"),
        ({"HEARTBEAT_LOG_PATTERN": "x{99999999999}"}, "not a regular expression"),
        ({"HEARTBEAT_LOG_PATTERN": r"(step=\d+)?"}, "matches every line"),
        ({"STACK_DUMP_SIGNAL": "SIGNONE"}, "set the name of a signal"),
        ({"STACK_DUMP_SIGNAL": "KILL"}, "set the name of a signal"),
        ({"STACK_DUMP_SIGNAL": "USR1", "STACK_DUMP_COMMAND": "true"}, "exclude each other"),
        ({"PROGRESS_DEADLINE_SECONDS": "5m"}, "set a number from 1 to 604800"),
        ({"FIRST_HEARTBEAT_SECONDS": "0"}, "set a number from 1 to 604800"),
        ({"HANG_EXIT_CODE": "256"}, "set a number from 1 to 255"),
    ],
)
def test_what_is_wrong_is_named_with_what_to_do(env, change, text):
    assert text in problems({**env, **change})


@pytest.mark.parametrize("name", ["SIGUSR1", "USR1"])
def test_signals_have_names(env, name):
    assert read_settings({**env, "STACK_DUMP_SIGNAL": name}).watchdog.dump_signal is signal.SIGUSR1


def test_a_pattern_is_bytes_whatever_the_output_is(env):
    pattern = read_settings({**env, "HEARTBEAT_LOG_PATTERN": os.fsdecode(b"\xc3\xa9\xff")}).watchdog.pattern
    assert pattern.search(b"\xc3\xa9\xff!")


def test_a_pipe_is_fine(env, tmp_path):
    os.mkfifo(tmp_path / "beat")
    assert read_settings(env).watchdog.file == tmp_path / "beat"
