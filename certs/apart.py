"""Runs functions that need the cryptography library in a child process, since loading it takes 15 MiB."""

import pickle
import subprocess
import sys
from typing import Any

from certs.tls import CertificateError

SECONDS = 60.0
"""Time limit of one call. On an idle machine a call takes a tenth of a second."""

RETRY_AFTER = 3.0
"""Seconds from the first failure to the next attempt."""

LONGEST_PAUSE = 60.0
"""Largest number of seconds between two attempts."""

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
"""The child uses the module path of this process, since in the image only the entry point knows where the program is.
The child reads the arguments last, since unpickling imports their types from this path."""


def retry_pause(failures: int, first: float = RETRY_AFTER) -> float:
    """Seconds to wait after `failures` failures in a row: `first`, then twice as long each time, up to a limit."""
    return min(first * 2.0 ** min(failures - 1, 10), max(first, LONGEST_PAUSE))


def call_in_process(module: str, function: str, *arguments: object, seconds: float = SECONDS) -> Any:
    """Call a function in a child process and return its result. Blocks until the process has ended.

    Raises `CertificateError` with the text of a ValueError of the function, or of another failure of the process.
    """
    task = pickle.dumps((sys.path, module, function, pickle.dumps(arguments)))
    command = [sys.executable, "-IS", "-c", _CODE]  # neither the environment nor the folder changes what is imported
    try:
        process = subprocess.run(command, input=task, capture_output=True, timeout=seconds, check=False)  # noqa: S603 (our own Python)
    except OSError as error:
        raise CertificateError(f"the process that makes certificates does not start: {error}") from error
    except subprocess.TimeoutExpired:
        raise CertificateError(f"the process that makes certificates has not ended within {seconds:g} s") from None
    if process.returncode:
        last_line = process.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise CertificateError(last_line or f"the process that makes certificates ended with code {process.returncode}")
    return pickle.loads(process.stdout)  # noqa: S301 (of our own process)
