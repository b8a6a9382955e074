"""The rules about security contexts of pods and containers. Pure."""

import re
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from kube.model.field import FieldError, Path
from kube.model.job_rules.checks import (
    Check,
    duplicate,
    each,
    entries,
    fields,
    forbidden,
    invalid,
    missing,
    one_of,
    pod_containers,
    text,
    user_or_group_id,
)
from kube.model.job_rules.forms import relative_path
from kube.model.jsontree import dig, items

_SYSCTL = re.compile(r"[a-z0-9][-_a-z0-9]*[a-z0-9]|[a-z0-9]")
_SYSCTL_FORM = (
    "must have at most 253 characters and match regex"
    r" ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
)
_MAX_SYSCTL = 253
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")


def _profile(field: str, label: str, shown_value: Callable[[Any], Any]) -> Check:
    """A profile of a supported type, with a file only for Localhost.

    `shown_value`: the value in the error about a file that must not be set.
    """

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        kind, file = value.get("type") or "", value.get("localhostProfile")
        if not kind:
            yield missing(path.at("type"), f"type is required when {field} is set")
        else:
            yield from one_of(*_PROFILES)(path.at("type"), kind)
        if kind == "Localhost" and file is None:
            yield missing(path.at("localhostProfile"), f"must be set when {label} type is Localhost")
        elif kind != "Localhost" and file is not None:
            yield invalid(
                path.at("localhostProfile"), shown_value(value), f"can only be set when {label} type is Localhost"
            )

    return check


def _local_file(path: Path, value: Any) -> Iterator[FieldError]:
    if value.get("type") == "Localhost":
        yield from text(relative_path)(path.at("localhostProfile"), value.get("localhostProfile"))


def _sysctls(path: Path, value: Any) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, item in entries(value):
        name = str(item.get("name") or "")
        if not name:
            yield missing(path.at(i, "name"))
        elif len(name) > _MAX_SYSCTL or not all(map(_SYSCTL.fullmatch, name.replace("/", ".").split("."))):
            yield invalid(path.at(i, "name"), name, _SYSCTL_FORM)
        elif name in seen:
            yield duplicate(path.at(i, "name"), name)
        seen.add(name)


_SECCOMP = fields(_profile("seccompProfile", "seccomp", dict), _local_file)
_APPARMOR = fields(_profile("appArmorProfile", "AppArmor", itemgetter("localhostProfile")))


def _escalation(path: Path, value: Any) -> Iterator[FieldError]:
    if value.get("allowPrivilegeEscalation") is not False:
        return
    if value.get("privileged") is True:
        yield invalid(path, value, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
    if "CAP_SYS_ADMIN" in items(value, "capabilities", "add"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        yield invalid(path, value, detail)


CONTAINER_SECURITY = fields(
    _escalation,
    runAsUser=user_or_group_id,
    runAsGroup=user_or_group_id,
    procMount=one_of("Default", "Unmasked", empty=True),
    seccompProfile=_SECCOMP,
    appArmorProfile=_APPARMOR,
)
POD_SECURITY = fields(
    fsGroup=user_or_group_id,
    runAsUser=user_or_group_id,
    runAsGroup=user_or_group_id,
    supplementalGroups=each(user_or_group_id),
    sysctls=_sysctls,
    fsGroupChangePolicy=one_of("Always", "OnRootMismatch", empty=True),
    supplementalGroupsPolicy=one_of("Merge", "Strict", empty=True),
    seLinuxChangePolicy=one_of("MountOption", "Recursive", empty=True),
    seccompProfile=_SECCOMP,
    appArmorProfile=_APPARMOR,
)


def host_namespaces(path: Path, pod: Any) -> Iterator[FieldError]:
    """A check of hostUsers, shareProcessNamespace and procMount, which exclude other fields about namespaces."""
    if pod.get("shareProcessNamespace") is True and pod.get("hostPID") is True:
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(path.at("shareProcessNamespace"), True, detail)
    if pod.get("hostUsers") is False:
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(key) is True:
                yield forbidden(path.at(key), "when `hostUsers` is false")
        return
    for container_path, container in pod_containers(path, pod):
        if dig(container, "securityContext", "procMount") == "Unmasked":
            detail = "`hostUsers` must be false to use `Unmasked`"
            yield invalid(container_path.at("securityContext", "procMount"), "Unmasked", detail)
