"""Reads a kubeconfig: merges its files and chooses a context. Each fault is one line with file and context.

As in kubectl, the first of several entries with the same name counts, and the first current context. Paths are relative
to the file that contains them.
"""

import base64
import os
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from kube.clock import rfc3339
from kube.errors import KubeconfigError

FAULTS = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, yaml.YAMLError)
"""Exceptions that faults of a kubeconfig, or of the files that it names, can raise while they are read."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A context, cluster or user of a kubeconfig, and the file that contains it."""

    name: str
    values: dict[str, Any]
    file: Path

    def read(self, key: str) -> bytes:
        """The decoded `key`-data (base64), else the content of the file that `key` names; empty if neither is set.

        Raises `KubeconfigError` if the data are not base64, and one of `FAULTS` for any other fault.
        """
        if data := self.values.get(f"{key}-data"):
            try:
                return base64.b64decode("".join(data.split()), validate=True)
            except ValueError as error:
                raise KubeconfigError(f"{key}-data is not base64") from error
        return self.read_file(key)

    def read_file(self, key: str) -> bytes:
        """The file that `key` names; empty if it names none."""
        name = self.values.get(key)
        return (self.file.parent / Path(name).expanduser()).read_bytes() if name else b""


class ChosenContext(NamedTuple):
    """The cluster and user of the context. `source` is for messages; `namespace` is empty if the context has none."""

    cluster: Entry
    user: Entry
    source: str
    namespace: str


def choose_context(path: str, context: str | None) -> ChosenContext:
    """The context of this name, else the current one. `path`: files joined by os.pathsep. Raises `KubeconfigError`."""
    files = [file for part in path.split(os.pathsep) if part and (file := Path(part).expanduser()).exists()]
    if not files:
        raise KubeconfigError(f"kubeconfig {path}: no such file; give --kubeconfig, set KUBECONFIG or run in a cluster")
    sections: dict[str, dict[str, Entry]] = {"contexts": {}, "clusters": {}, "users": {}}
    for file in files:
        body = _read(file)
        context = context or body.get("current-context")
        for section, entries in sections.items():
            for entry in body.get(section) or ():
                values = entry.get(section.removesuffix("s")) or {}
                entries.setdefault(entry["name"], Entry(entry["name"], values, file))
    if not context:
        raise KubeconfigError(f"kubeconfig {path}: it has no current-context, and no other was chosen")
    source = f"kubeconfig {path}, context {context!r}"
    if context not in sections["contexts"]:
        names = ", ".join(sorted(sections["contexts"])) or "none"
        raise KubeconfigError(f"{source}: no such context (the file has: {names})")
    context_values = sections["contexts"][context].values
    for kind in ("cluster", "user"):
        if (name := context_values.get(kind) or "") not in sections[f"{kind}s"]:
            raise KubeconfigError(f"{source}: its {kind} {name!r} is not in the file")
    cluster, user = sections["clusters"][context_values["cluster"]], sections["users"][context_values["user"]]
    _require_support(cluster.values, user.values, source)
    return ChosenContext(cluster, user, source, str(context_values.get("namespace") or ""))


def explain_refusal(user: Entry, at: datetime) -> str:
    """The end of a message: why the API server refuses the user, as far as the kubeconfig shows, and how to log in."""
    login = "log in again, or write a new token or certificate of this user into the kubeconfig"
    if expired := _expiry(user, at):
        return f"{expired}; {login}"
    problem = (
        "is not accepted: its token or certificate is wrong or has expired"
        if any(user.values.get(key) for key in _CREDENTIALS)
        else "has no token or certificate"
    )
    return f": user {user.name!r} {problem}; {login}"


_CREDENTIALS = (
    "auth-provider", "client-certificate", "client-certificate-data", "exec", "password", "token", "tokenFile"
)  # fmt: skip
"""Fields of a user in a kubeconfig that contain credentials."""


def _expiry(user: Entry, at: datetime) -> str:
    """The end of a message: the client certificate has expired; "" if it is valid, absent or unreadable."""
    from cryptography import x509  # noqa: PLC0415 - for a rare message

    try:
        end = x509.load_pem_x509_certificate(user.read("client-certificate")).not_valid_after_utc
    except (KubeconfigError, *FAULTS):
        return ""
    return f": the client certificate of user {user.name!r} has expired at {rfc3339(end)}" if end <= at else ""


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open(encoding="utf-8") as text:
            body = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise KubeconfigError(f"kubeconfig {file}: not YAML: {describe_fault(error)}") from error
    except FAULTS as error:
        raise KubeconfigError(f"kubeconfig {file}: not a kubeconfig: {describe_fault(error)}") from error
    if fault := _shape_fault(body):
        raise KubeconfigError(f"kubeconfig {file}: not a kubeconfig: {fault}")
    return dict(body)


def _shape_fault(config: Any) -> str:
    """Why a value is not a kubeconfig, by its first fault; "" if it is."""
    if not isinstance(config, dict):
        return "it must be a mapping"
    for name in ("contexts", "clusters", "users"):
        entries, kind = config.get(name) or [], name.removesuffix("s")
        if not isinstance(entries, list):
            return f"{name} must be a list"
        for number, entry in enumerate(entries):
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                return f"{name}[{number}] must have a name"
            if not isinstance(entry.get(kind) or {}, dict):
                return f"{name}[{number}].{kind} must be a mapping"
            for key in ("cluster", "user", "server"):
                if not isinstance((entry.get(kind) or {}).get(key), str | None):
                    return f"{name}[{number}].{kind}.{key} must be a text"
    return "" if isinstance(config.get("current-context"), str | None) else "current-context must be a name"


def _require_support(cluster: dict[str, Any], user: dict[str, Any], source: str) -> None:
    server = str(cluster.get("server") or "")
    if urlsplit(server).scheme not in {"http", "https"}:
        raise KubeconfigError(f"{source}: server {server!r} is not an http or https URL")
    proxy = str(cluster.get("proxy-url") or "http:")
    if urlsplit(proxy).scheme not in {"http", "https"}:
        raise KubeconfigError(f"{source}: proxy-url {proxy!r}: only http and https proxies are supported")
    if {"as", "as-groups", "as-uid", "as-user-extra"} & user.keys():
        raise KubeconfigError(f"{source}: impersonation (`as`) is not supported; use that user's own credentials")
    plugin = user.get("exec")
    if isinstance(plugin, dict) and isinstance(plugin.get("command"), str) and "PATH" not in str(plugin.get("env")):
        _check_program(plugin, source)


def _check_program(plugin: dict[str, Any], source: str) -> None:
    """Raise with the installHint if the program of an exec plugin does not exist."""
    command = plugin["command"]
    if command and shutil.which(command) is None:
        hint = plugin.get("installHint") or "install it, or correct the path"
        raise KubeconfigError(
            f"{source}: there is no program {command!r}, the credential plugin that users[].user.exec.command names:"
            f" {' '.join(str(hint).split())}"
        )


def describe_fault(error: BaseException) -> str:
    """One of `FAULTS` in words for the user, since Python's messages about values of a wrong type do not help."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no file {error.filename}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, KeyError):
        return f"the key {error.args[0]} is missing"
    if not isinstance(error, OSError | yaml.YAMLError | KubeconfigError):
        return "a value in it has a wrong type or form"
    return " ".join(str(error).split()) or "it cannot be used"
