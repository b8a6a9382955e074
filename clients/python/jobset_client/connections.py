"""Makes messages about failed connections, without error numbers and Python's type names. Without IO."""

import os
import socket
import ssl
from urllib.parse import urlsplit

from jobset_client.errors import UnreachableError

_ADDRESS_HINT = (
    "check the server's address in the kubeconfig, and that the API server can be reached from here (VPN, proxy)"
)
_AUTHORITY_HINT = "the certificate-authority in the kubeconfig has to be that of this server"
_NETWORK_HINT = "check the network, and try again"
_MAX_DEPTH = 20


def unreachable_error(
    task: str, server: str, error: BaseException, seconds: float, proxy: str | None = None
) -> UnreachableError:
    """The error of a request without an answer. `seconds`: the time that the request has waited."""
    address = without_credentials(server) + (f" through the proxy {without_credentials(proxy)}" if proxy else "")
    cause = _system_error(error)
    if isinstance(cause, TimeoutError):
        return UnreachableError(f"cannot {task}: no answer of {address} in {seconds:g} s; {_NETWORK_HINT}")
    if isinstance(cause, ssl.SSLCertVerificationError):
        reason = f"its certificate cannot be verified: {cause.verify_message or 'no reason was given'}"
        return UnreachableError(f"cannot {task}: cannot connect to {address}: {reason}; {_AUTHORITY_HINT}")
    if isinstance(cause, ssl.SSLError):
        return UnreachableError(
            f"cannot {task}: cannot connect to {address}: TLS: {tls_reason(cause)}; {_ADDRESS_HINT}"
        )
    if isinstance(cause, socket.gaierror):
        reason = (cause.strerror or "the name is not known").lower()
        return UnreachableError(f"cannot {task}: cannot connect to {address}: {reason}; {_ADDRESS_HINT}")
    if isinstance(cause, OSError) and not isinstance(cause, ConnectionResetError | BrokenPipeError):
        reason = os.strerror(cause.errno).lower() if cause.errno else "no connection could be made"
        return UnreachableError(f"cannot {task}: cannot connect to {address}: {reason}; {_ADDRESS_HINT}")
    return UnreachableError(f"cannot {task}: the connection to {address} broke; {_NETWORK_HINT}")


def tls_reason(error: ssl.SSLError) -> str:
    """The reason why TLS failed, such as `wrong version number`."""
    if error.reason:
        return error.reason.replace("_", " ").lower()
    return "no PEM file that can be read, or a key of another certificate"


def without_credentials(server: str) -> str:
    """The address of a server, without credentials that its URL may contain."""
    parts = urlsplit(server)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else server


def _system_error(error: BaseException) -> BaseException:
    """The error of the system behind the errors of the HTTP packages."""
    for _ in range(_MAX_DEPTH):
        if isinstance(error, TimeoutError) or (
            isinstance(error, OSError) and type(error).__module__ in _SYSTEM_MODULES
        ):
            break
        candidates = (error.__cause__, *reversed(error.args), error.__context__)
        inner = next((inner_error for inner_error in candidates if isinstance(inner_error, BaseException)), None)
        if inner is None:
            break
        error = inner
    return error


_SYSTEM_MODULES = {"builtins", "socket", "ssl"}
