"""Work that needs the cryptography library, in a process that ends with it: whoever loads it has 15 MiB less."""

import pickle
import subprocess
import sys
from importlib import import_module
from typing import Any

from certs.tls import CertificateError

SECONDS = 60.0
"""Time for one call. On an idle machine it takes a tenth of a second."""


def call(module: str, function: str, *arguments: object, seconds: float = SECONDS) -> Any:
    """What a function gives. Blocks until the process has ended.

    Raises `CertificateError`: the text of a ValueError of the function, or how else the process has failed.
    """
    task = pickle.dumps((module, function, arguments))
    command = [sys.executable, "-I", "-m", "certs.apart"]  # neither environment nor folder changes what is imported
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


def _answer_call() -> None:
    """What the process does: one call, read from its input, whose result it writes."""
    module, function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 (of the process that started it)
    try:
        result = getattr(import_module(module), function)(*arguments)
    except ValueError as error:
        sys.exit(str(error))
    pickle.dump(result, sys.stdout.buffer)


if __name__ == "__main__":
    _answer_call()
