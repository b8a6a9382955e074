"""Runs functions that need the cryptography library in a child process, since loading it takes 15 MiB."""

import pickle
import subprocess
import sys
from typing import Any

from certs.tls import CertificateError

CALL_TIMEOUT = 60.0
"""Seconds after which a call is ended. On an idle machine a call takes a tenth of a second."""

FIRST_PAUSE = 3.0
"""Seconds from the first failure to the second attempt."""

LONGEST_PAUSE = 60.0
"""Largest number of seconds between two attempts."""

_CHILD_CODE = """\
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
"""The program of the child. It uses the module path of this process, since in the image only the entry point knows
where the modules are. It reads the arguments last, since unpickling imports their types from this path."""


def retry_pause(failures: int, first_pause: float = FIRST_PAUSE) -> float:
    """Seconds to wait after `failures` failures in a row: `first_pause`, then twice as long each time up to a limit."""
    return min(first_pause * 2.0 ** min(failures - 1, 10), max(first_pause, LONGEST_PAUSE))


def call_in_process(module: str, function: str, *arguments: object, seconds: float = CALL_TIMEOUT) -> Any:
    """Call a function in a child process and return its result. Blocks until the process has ended.

    Raises `CertificateError` with the text of a ValueError of the function, or of another failure of the process.
    """
    task = pickle.dumps((sys.path, module, function, pickle.dumps(arguments)))
    # With -IS neither the environment nor the folder changes what is imported.
    command = [sys.executable, "-IS", "-c", _CHILD_CODE]
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
