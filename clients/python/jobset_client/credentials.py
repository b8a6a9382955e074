"""Chooses the cluster, by a kubeconfig and its context or by the service account of the pod, and explains errors.

The Kubernetes packages read the credentials. This module explains their errors, with the file that has the fault.
"""

import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from jobset_client.connections import tls_reason
from jobset_client.errors import CredentialsError
from jobset_client.words import as_mapping, one_line

_KUBECONFIG_ERRORS = (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError, yaml.YAMLError)
"""Errors that the Kubernetes packages raise about faults in a kubeconfig, in addition to their own error type."""
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_IMPERSONATION = {"as", "as-groups", "as-uid", "as-user-extra"}
_DEFAULT_KUBECONFIG = "~/.kube/config"
_MISSING_KEY = re.compile(r"Invalid kube-config file\. Expected key (\S+) in ")
_NO_FILE_HINT = "give kubeconfig=..., set KUBECONFIG or run in a cluster"


@dataclass(frozen=True, slots=True)
class ChosenCluster:
    """The cluster to use. `file`: one or more kubeconfigs, or empty for the service account of this pod."""

    source: str
    """The file and its context, for messages."""
    file: str = ""
    namespace: str = ""
    """The namespace of the context or the pod; empty if it is not known."""
    user: Mapping[str, Any] = field(default_factory=dict)


def choose(kubeconfig: str | os.PathLike[str] | None, context: str | None) -> ChosenCluster:
    """The cluster of `kubeconfig`, else of KUBECONFIG, else of the default kubeconfig or the pod's service account.

    Raises `CredentialsError`.
    """
    if runs_in_pod(kubeconfig, context):
        return ChosenCluster("in-cluster credentials", namespace=_pod_namespace())
    paths = os.fspath(kubeconfig or os.environ.get("KUBECONFIG") or _DEFAULT_KUBECONFIG)
    files = [Path(part).expanduser() for part in paths.split(os.pathsep) if part]
    merged = _merge_files(paths, files)
    name = context or merged["current-context"]
    contexts = ", ".join(sorted(merged["contexts"])) or "none"
    if not name:
        raise CredentialsError(
            f"kubeconfig {paths}: it has no current-context, and no other was chosen: give context=..."
            f" (the file has: {contexts})"
        )
    source = f"kubeconfig {paths}, context {name!r}"
    if name not in merged["contexts"]:
        raise CredentialsError(f"{source}: no such context (the file has: {contexts})")
    chosen_context = merged["contexts"][name]
    for kind in ("cluster", "user"):
        if (entry_name := chosen_context.get(kind) or "") not in merged[f"{kind}s"]:
            raise CredentialsError(f"{source}: its {kind} {entry_name!r} is not in the file")
    server = merged["clusters"][chosen_context["cluster"]].get("server") or ""
    if urlsplit(server).scheme not in {"http", "https"}:
        raise CredentialsError(f"{source}: server {server!r} is not an http or https URL")
    file = os.pathsep.join(map(str, files))
    user = merged["users"][chosen_context["user"]]
    if _IMPERSONATION & user.keys():
        # The Kubernetes packages ignore impersonation, and would use the rights of the real user.
        raise CredentialsError(f"{source}: impersonation (`as`) is not supported; use that user's own credentials")
    return ChosenCluster(source, file, str(chosen_context.get("namespace") or ""), user)


def runs_in_pod(kubeconfig: str | os.PathLike[str] | None, context: str | None) -> bool:
    """Whether to use the service account of this pod: no kubeconfig is given, and none exists."""
    if kubeconfig or context or os.environ.get("KUBECONFIG") or "KUBERNETES_SERVICE_HOST" not in os.environ:
        return False
    return not Path(_DEFAULT_KUBECONFIG).expanduser().exists()


@contextmanager
def guard_loading(chosen: ChosenCluster, configuration: Any, loader_error: type[Exception]) -> Iterator[None]:
    """A context in which a Kubernetes package loads the configuration. Its end checks the configuration.

    Raises `CredentialsError`.
    """
    try:
        yield
    except (loader_error, *_KUBECONFIG_ERRORS) as error:
        raise _loading_error(chosen, error) from error
    _check_certificates(chosen, configuration)


def _loading_error(chosen: ChosenCluster, error: Exception) -> CredentialsError:
    """The error if a Kubernetes package cannot read the credentials."""
    plugin = _plugin_command(chosen)
    if plugin and (str(error).startswith("exec") or getattr(error, "filename", None) == plugin):
        return _plugin_error(chosen)
    if isinstance(error, OSError) and error.strerror:
        reason = f"{error.strerror.lower()}: {error.filename}" if error.filename else error.strerror.lower()
    elif isinstance(error, _KUBECONFIG_ERRORS):
        reason = "a value in it has a wrong type or form"
    elif missing := _MISSING_KEY.match(str(error)):
        reason = f"the key {missing[1]} is missing or empty"
    else:
        reason = one_line(error) or "it cannot be used"
    return CredentialsError(f"{chosen.source}: {reason}")


def _check_certificates(chosen: ChosenCluster, configuration: Any) -> None:
    """Raises `CredentialsError` if certificates cannot be used, or a plugin has returned no credentials."""
    unusable_part = "certificate authority"
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if configuration.ssl_ca_cert:
            context.load_verify_locations(configuration.ssl_ca_cert)
        if configuration.cert_file:
            unusable_part = "client certificate or its key"
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (ssl.SSLError, OSError) as error:
        reason = (
            tls_reason(error) if isinstance(error, ssl.SSLError) else (error.strerror or "it cannot be read").lower()
        )
        raise CredentialsError(f"{chosen.source}: {unusable_part} unusable: {reason}") from error
    if _plugin_command(chosen) and not (configuration.api_key or configuration.cert_file):
        raise _plugin_error(chosen)


def _plugin_command(chosen: ChosenCluster) -> str:
    """The command that returns the credentials; empty if there is none."""
    return str(as_mapping(chosen.user.get("exec")).get("command") or "")


def _plugin_error(chosen: ChosenCluster) -> CredentialsError:
    return CredentialsError(
        f"{chosen.source}: exec plugin {_plugin_command(chosen)!r} gave neither token nor certificate: run it by hand"
        " to see why"
    )


def _pod_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _merge_files(paths: str, files: list[Path]) -> dict[str, Any]:
    """Sections of the files by name, and their current context. Of duplicate entries, the first one counts."""
    merged: dict[str, Any] = {"contexts": {}, "clusters": {}, "users": {}, "current-context": ""}
    bodies = [(file, _read_file(file)) for file in files if file.exists()]
    if not bodies:
        raise CredentialsError(f"kubeconfig {paths}: no such file; {_NO_FILE_HINT}")
    for file, body in bodies:
        if fault := _kubeconfig_fault(body):
            raise CredentialsError(f"kubeconfig {file}: not a kubeconfig: {fault}")
        merged["current-context"] = merged["current-context"] or body.get("current-context") or ""
        for section in ("contexts", "clusters", "users"):
            for entry in body.get(section) or ():
                merged[section].setdefault(entry["name"], entry.get(section.removesuffix("s")) or {})
    return merged


def _read_file(file: Path) -> Any:
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        raise CredentialsError(f"kubeconfig {file}: not YAML: {position}{one_line(str(reason))}") from error
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise CredentialsError(f"kubeconfig {file}: {reason}; {_NO_FILE_HINT}") from error
    except (ValueError, RecursionError) as error:
        raise CredentialsError(f"kubeconfig {file}: not a kubeconfig: it is not text that can be read") from error


def _kubeconfig_fault(config: Any) -> str:
    """The first part of a file that is not valid in a kubeconfig; empty if there is none."""
    if not isinstance(config, dict):
        return "it must be a mapping"
    for name in ("contexts", "clusters", "users"):
        entries, inner = config.get(name) or [], name.removesuffix("s")
        if not isinstance(entries, list):
            return f"{name} must be a list"
        for number, entry in enumerate(entries):
            if fault := _entry_fault(entry, inner):
                return f"{name}[{number}]{fault}"
    return "" if isinstance(config.get("current-context"), str | None) else "current-context must be a name"


def _entry_fault(entry: Any, inner: str) -> str:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return " must have a name"
    if not isinstance(entry.get(inner) or {}, dict):
        return f".{inner} must be a mapping"
    for key in ("cluster", "user", "server", "namespace"):
        if not isinstance((entry.get(inner) or {}).get(key), str | None):
            return f".{inner}.{key} must be a text"
    return ""
