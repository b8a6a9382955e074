"""What both clients need to reach a cluster: where it is, and how a step becomes a request."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

from jobset_client.core import Call
from jobset_client.errors import JobSetError

DEFAULT = "default"
"""The namespace where nothing names one."""
FAULTS = (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError)
"""What readers of a kubeconfig raise about mistakes in it, beside their own error."""
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def in_pod(kubeconfig: str | None, context: str | None) -> bool:
    """Whether to use the service account of this pod: no kubeconfig is named, and there is none."""
    if kubeconfig or context or os.environ.get("KUBECONFIG") or "KUBERNETES_SERVICE_HOST" not in os.environ:
        return False
    return not Path("~/.kube/config").expanduser().exists()


def config_file(kubeconfig: str | None) -> str | None:
    """The kubeconfig to read: the one that is named, else that of KUBECONFIG as it is now; None for the usual place."""
    return kubeconfig or os.environ.get("KUBECONFIG") or None


def pod_namespace() -> str:
    """The namespace of this pod; empty if that is not known."""
    try:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def namespace_of(contexts: Sequence[Mapping[str, Any]], active: Mapping[str, Any], name: str | None) -> str:
    """The namespace of the context of that name, else of the active one; empty if it names none."""
    chosen = active if name is None else next((one for one in contexts if one.get("name") == name), active)
    return str((chosen.get("context") or {}).get("namespace") or "")


def no_credentials(error: Exception) -> str:
    """What to say where the credentials cannot be read."""
    return f"no credentials for a cluster: {why(error)}; name a kubeconfig: kubeconfig=..., or set KUBECONFIG"


def why(error: BaseException) -> str:
    """One line, never empty."""
    return " ".join(str(error).split()) or type(error).__name__


def url(host: str, call: Call) -> str:
    """Where the request goes."""
    query = f"?{urlencode(call.query)}" if call.query else ""
    return f"{host.rstrip('/')}{call.path}{query}"


def body(call: Call) -> bytes | None:
    """What it carries."""
    return None if call.body is None else json.dumps(call.body).encode()


def headers(call: Call) -> dict[str, str]:
    """What is said about it."""
    said = {"Accept": "application/json", "User-Agent": _AGENT}
    return said if call.body is None else said | {"Content-Type": call.content}


class Body:
    """An answer that comes in pieces, at most so many bytes as the call allows."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._whole = bytearray()

    def add(self, piece: bytes) -> None:
        """Raises `JobSetError` where it becomes too large."""
        self._whole += piece
        if len(self._whole) > self._call.most:
            raise JobSetError(f"cannot {self._call.what}: the answer is larger than {self._call.most >> 20} MiB")

    @property
    def bytes(self) -> bytes:
        return bytes(self._whole)


def _agent() -> str:
    try:
        number = version("jobset-client")
    except PackageNotFoundError:
        number = "dev"
    return f"jobset-client/{number} (python/{platform.python_version()})"


_AGENT = _agent()
