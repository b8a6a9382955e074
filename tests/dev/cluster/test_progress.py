"""Long work shows what it does, how far it is and for how long: plainly in a file, alive on a terminal."""

import contextlib
import io
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dev.cluster import progress
from tests.support.cluster.requests import wait_for

LIVE = """
import time
from dev.cluster.progress import step
with step("building") as report:
    for count in range(1, 9):
        report(f"{count} of 8 packages")
        time.sleep(0.1)
"""


def test_without_a_terminal_a_plain_line_now_and_then():
    out = io.StringIO()
    with progress._line_display("building", out, 0.02) as report:
        report("3 of 8 packages")
        wait_for(lambda: out.getvalue().count("building: 3 of 8 packages, 0 s\n") >= 2)
    lines = out.getvalue().splitlines()
    assert lines[0] == "building ..."
    assert "\x1b" not in out.getvalue()


def test_failed_step_is_not_called_done(capfd):
    with pytest.raises(ValueError, match="broken"), progress.step("building"):
        raise ValueError("broken")
    assert "done" not in capfd.readouterr().err


def test_on_a_terminal_one_line_that_lives():
    ours, theirs = pty.openpty()
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", LIVE],
        stderr=theirs,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
    ):
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # how a pseudo-terminal says that the other side is closed
            while piece := os.read(ours, 4096):
                seen += piece
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert re.search(r"building: \d of 8 packages", text)
    assert re.search(r"0:00:0\d", text)
    assert "\r" in text
    assert re.search(r"building: done after \d+ s$", text.rstrip())


def test_elapsed_time_is_readable():
    now = time.monotonic()
    assert progress.elapsed_text(now - 7.2) == "7 s"
    assert progress.elapsed_text(now - 185) == "3 min 05 s"
