"""The settings of the progress watchdog from the environment (docs/reference/watchdog.md#options)."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from agent.environment import read_number

DEADLINE = "PROGRESS_DEADLINE_SECONDS"
FILE = "JOBSET_HEARTBEAT_FILE"
PATTERN = "HEARTBEAT_LOG_PATTERN"
DEFAULT_DUMP_SECONDS = "10"
DEFAULT_TERMINATION_SECONDS = "10"
# The exit code of timeout(1), which is in no common table of retryable or permanent codes.
DEFAULT_HANG_EXIT_CODE = "124"
# A week.
MAX_SECONDS = 604800

OPTIONS = (
    FILE,
    PATTERN,
    "FIRST_HEARTBEAT_SECONDS",
    "STACK_DUMP_SIGNAL",
    "STACK_DUMP_COMMAND",
    "STACK_DUMP_SECONDS",
    "TERMINATION_SECONDS",
    "HANG_EXIT_CODE",
)
"""Options that have no effect without a deadline."""

HELP = f"""\
to end a worker that makes no progress any more (watchdog; main container mode only):
  {DEADLINE}    a worker without a heartbeat for that long hangs; without it there is no watchdog
  {FILE}        a heartbeat is each change of this file (touch), or each write to it where it is a named
                               pipe. The worker finds the path in this variable, too
  {PATTERN}        a heartbeat is each line of the worker's stdout or stderr in which this regular
                               expression matches, such as `step=[0-9]+` (the syntax is that of Python's re, and of
                               RE2 as far as that has the same). Either the file or the pattern is needed
  FIRST_HEARTBEAT_SECONDS      time until the first heartbeat: imports, checkpoint, compilation; default: the deadline
  STACK_DUMP_SIGNAL            sent to the worker's processes that handle it, such as SIGUSR1. In Python:
                               faulthandler.register(signal.SIGUSR1, all_threads=True)
  STACK_DUMP_COMMAND           or: run by `$SHELL -c`, with the worker's process id in WORKER_PID
  STACK_DUMP_SECONDS           time limit of that command, default {DEFAULT_DUMP_SECONDS}
  TERMINATION_SECONDS          time from SIGTERM to SIGKILL, default {DEFAULT_TERMINATION_SECONDS}
  HANG_EXIT_CODE               exit code of the agent then, 1 to 255, default {DEFAULT_HANG_EXIT_CODE}
"""


class WatchdogSettings(NamedTuple):
    """The definition of a hang, and the reaction to it. Times are in seconds."""

    deadline: int
    first_deadline: int
    file: Path | None
    pattern: re.Pattern[bytes] | None
    dump_signal: signal.Signals | None
    dump_command: str
    dump_seconds: int
    termination_seconds: int
    exit_code: int


def read_watchdog(env: Mapping[str, str], problems: list[str], *, has_worker: bool) -> WatchdogSettings | None:
    """Settings of the watchdog, or None without a deadline. `has_worker`: the agent starts the worker.

    Adds faults to `problems`.
    """
    if not env.get(DEADLINE):
        problems += [f"{name} is set without {DEADLINE}: set both or none" for name in OPTIONS if env.get(name)]
        return None
    if not has_worker:
        problems.append(
            f"{DEADLINE} needs WORKER_COMMAND, or a command after --: the agent ends only a worker that it has started"
        )
    if not (env.get(FILE) or env.get(PATTERN)):
        problems.append(f"{DEADLINE} needs {FILE} or {PATTERN}: else there is nothing that shows progress")
    if env.get("STACK_DUMP_SIGNAL") and env.get("STACK_DUMP_COMMAND"):
        problems.append("STACK_DUMP_SIGNAL and STACK_DUMP_COMMAND exclude each other: set one of them")
    deadline = read_number(env, DEADLINE, "", MAX_SECONDS, problems)
    return WatchdogSettings(
        deadline=deadline,
        first_deadline=read_number(env, "FIRST_HEARTBEAT_SECONDS", str(deadline or 1), MAX_SECONDS, problems),
        file=_file(env, problems),
        pattern=_pattern(env, problems),
        dump_signal=_signal(env, problems),
        dump_command=env.get("STACK_DUMP_COMMAND", ""),
        dump_seconds=read_number(env, "STACK_DUMP_SECONDS", DEFAULT_DUMP_SECONDS, MAX_SECONDS, problems),
        termination_seconds=read_number(env, "TERMINATION_SECONDS", DEFAULT_TERMINATION_SECONDS, MAX_SECONDS, problems),
        exit_code=read_number(env, "HANG_EXIT_CODE", DEFAULT_HANG_EXIT_CODE, 255, problems),
    )


def _file(env: Mapping[str, str], problems: list[str]) -> Path | None:
    text = env.get(FILE)
    if not text:
        return None
    path = Path(text)
    if not path.is_absolute():
        problems.append(f"{FILE} is {text!r}: set an absolute path, since the worker may change its directory")
    elif path.exists() and not (path.is_file() or path.is_fifo()):
        problems.append(f"{FILE} is {text!r}, which is neither a file nor a named pipe: set the path of a file")
    return path


def _pattern(env: Mapping[str, str], problems: list[str]) -> re.Pattern[bytes] | None:
    text = env.get(PATTERN)
    if not text:
        return None
    try:
        # With a pattern that matches an empty line, any output would count as progress.
        pattern = re.compile(text.encode(errors="surrogateescape"))
        matches_everything = pattern.search(b"") is not None
    except (re.error, OverflowError, RecursionError) as error:
        problems.append(f"{PATTERN} is {text[:100]!r}, which is not a regular expression: {error}")
        return None
    if matches_everything:
        problems.append(f"{PATTERN} is {text[:100]!r}, which matches every line: write what only progress prints")
    return pattern


def _signal(env: Mapping[str, str], problems: list[str]) -> signal.Signals | None:
    text = env.get("STACK_DUMP_SIGNAL")
    if not text:
        return None
    dump_signal = next((candidate for candidate in signal.Signals if candidate.name in {text, f"SIG{text}"}), None)
    if dump_signal is None or dump_signal in {signal.SIGKILL, signal.SIGSTOP}:
        problems.append(f"STACK_DUMP_SIGNAL is {text!r}: set the name of a signal that a program can handle: SIGUSR1")
    return dump_signal
