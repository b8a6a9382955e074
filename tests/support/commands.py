"""Runs commands of `jobset` in the process of the tests. The imports of another process take a second of processor time."""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from cli import main as cli


def run_command(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run `jobset` with the arguments, and with `text` as its standard input."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        try:
            code = cli.main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            err.write(end.code if isinstance(end.code, str) else "")
    assert "Traceback" not in err.getvalue()
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
