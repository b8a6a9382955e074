"""Runs functions that need the cryptography library in a child process, since loading it takes 15 MiB."""

import pickle
import subprocess
import sys
from typing import Any

from certs.tls import CertificateError

SECONDS = 60.0
"""Time for one call. On an idle machine it takes a tenth of a second."""

RETRY_AFTER = 3.0
"""Seconds from a first failure to the next attempt."""

LONGEST_PAUSE = 60.0
"""Seconds between attempts that have failed many times in a row."""

_CODE = """\
import pickle, sys
path, module, function, arguments = pickle.load(sys.stdin.buffer)
sys.path[:] = path
from importlib import import_module
try:
    result = getattr(import_module(module), function)(*pickle.loads(arguments))
except ValueError as error:
    sys.exit(str(error))
pickle.dump(result, sys.stdout.buffer)
"""
"""The child uses the module path of this process: in the image only the entry point knows where the program is.
Arguments are read last, since their types are imported by that path."""


def pause(failures: int, first: float = RETRY_AFTER) -> float:
    """Seconds to wait after so many failures in a row, twice as long each time: each costs as much as a success."""
    return min(first * 2.0 ** min(failures - 1, 10), max(first, LONGEST_PAUSE))


def call(module: str, function: str, *arguments: object, seconds: float = SECONDS) -> Any:
    """The result of a function. Blocks until the process has ended.

    Raises `CertificateError` with the text of a ValueError of the function, or of another failure of the process.
    """
    task = pickle.dumps((sys.path, module, function, pickle.dumps(arguments)))
    command = [sys.executable, "-IS", "-c", _CODE]  # neither the environment nor the folder changes what is imported
    try:
        done = subprocess.run(command, input=task, capture_output=True, timeout=seconds, check=False)  # noqa: S603 (our own Python)
    except OSError as error:
        raise CertificateError(f"the process that makes certificates does not start: {error}") from error
    except subprocess.TimeoutExpired:
        raise CertificateError(f"the process that makes certificates has not ended within {seconds:g} s") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise CertificateError(last or f"the process that makes certificates ended with code {done.returncode}")
    return pickle.loads(done.stdout)  # noqa: S301 (of our own process)
