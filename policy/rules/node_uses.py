"""Resources of the node that pods may use, as data: fields of a pod, and the values that are harmless. Pure.

The level Baseline of the Pod Security Standards forbids these uses, because each gives a container access to its node.
Further demands of the level Restricted, such as a user other than root, are not about access to the node.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from kube.model.field import Parts, Path
from policy.judged import Template
from policy.rule import container_fields, pod_fields

ITEM: Final = "[]"
"""A part of a path that stands for each item of a list."""


class Holder(Enum):
    """The kind of object that has a field."""

    POD = "pod"
    CONTAINER = "container"
    VOLUME = "volume"


@dataclass(frozen=True, slots=True)
class Field:
    """A field and its harmless values. An absent field is harmless, too."""

    holder: Holder
    parts: tuple[str, ...]
    harmless: tuple[str | int, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the field in a JobSet, in the form of `PolicyRule.reads`."""
        name = ".".join(self.parts).replace(f".{ITEM}", ITEM)
        if self.holder is Holder.CONTAINER:
            return container_fields(name)
        return pod_fields(name if self.holder is Holder.POD else f"volumes[].{name}")


@dataclass(frozen=True, slots=True)
class Use:
    """A use of the node that can be forbidden: its name in messages, the fix, and the fields that ask for it."""

    label: str
    fix: str
    fields: tuple[Field, ...]

    def find_in(self, template: Template) -> Iterator[tuple[Path, Any]]:
        """The harmful values in the pods of a template, each after its path."""
        for field in self.fields:
            for holder_path, holder in _holders(template, field.holder):
                # Few holders have the field. Calling `_values` for all would take most of the time for a large set.
                for parts, value in _values(holder, field.parts) if field.parts[0] in holder else ():
                    if value not in field.harmless:
                        yield template.at(*holder_path, *parts), value


def _holders(template: Template, holder: Holder) -> Iterator[tuple[Parts, Any]]:
    if holder is Holder.POD:
        yield (), template.pod
    elif holder is Holder.CONTAINER:
        for name, i, container in template.containers:
            yield (name, i), container
    else:
        for i, volume in enumerate(template.pod.get("volumes") or ()):
            yield ("volumes", i), volume


def _values(value: Any, parts: Parts, path: Parts = ()) -> Iterator[tuple[Parts, Any]]:
    if value is None:
        return
    if not parts:
        yield path, value
    elif parts[0] == ITEM:
        for i, item in enumerate(value):
            yield from _values(item, parts[1:], (*path, i))
    else:
        yield from _values(value.get(parts[0]), parts[1:], (*path, parts[0]))


def _pod(*parts: str, harmless: tuple[str | int, ...] = ()) -> Field:
    return Field(Holder.POD, parts, harmless)


def _container(*parts: str, harmless: tuple[str | int, ...] = ()) -> Field:
    return Field(Holder.CONTAINER, parts, harmless)


def _security(*parts: str, harmless: tuple[str | int, ...]) -> tuple[Field, Field]:
    """A field of the security context, of pods and of containers."""
    path = ("securityContext", *parts)
    return _pod(*path, harmless=harmless), _container(*path, harmless=harmless)


_OFF = (False,)
_CAPABILITIES = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
"""Capabilities that container runtimes give every container."""
_SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
)
"""Sysctls that are set in the namespaces of the pod, so they affect no other pod."""
_SE_LINUX = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_PROFILES = ("", "RuntimeDefault", "Localhost")
_HANDLERS = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)

USES: Final[Mapping[str, Use]] = {
    "hostNetwork": Use("the network of the node", "remove hostNetwork", (_pod("hostNetwork", harmless=_OFF),)),
    "hostPath": Use(
        "a directory of the node", "use a claim, an emptyDir or an image volume", (Field(Holder.VOLUME, ("hostPath",)),)
    ),
    "hostPorts": Use(
        "a port of the node",
        "remove hostPort: pods have addresses",
        (_container("ports", ITEM, "hostPort", harmless=(0,)),),
    ),
    "privileged": Use(
        "a privileged container",
        "remove privileged, and add the capabilities",
        (_container("securityContext", "privileged", harmless=_OFF),),
    ),
    "hostPID": Use("the processes of the node", "remove hostPID", (_pod("hostPID", harmless=_OFF),)),
    "hostIPC": Use("the shared memory of the node", "remove hostIPC", (_pod("hostIPC", harmless=_OFF),)),
    "capabilities": Use(
        "a capability that containers do not have by themselves",
        "remove it",
        (_container("securityContext", "capabilities", "add", ITEM, harmless=_CAPABILITIES),),
    ),
    "procMount": Use(
        "an unmasked /proc", "remove procMount", (_container("securityContext", "procMount", harmless=("", "Default")),)
    ),
    "hostProcess": Use(
        "a process of a Windows node", "remove hostProcess", _security("windowsOptions", "hostProcess", harmless=_OFF)
    ),
    "seccomp": Use(
        "a container without a seccomp profile",
        "write RuntimeDefault, or remove seccompProfile",
        _security("seccompProfile", "type", harmless=_PROFILES),
    ),
    "appArmor": Use(
        "a container without an AppArmor profile",
        "write RuntimeDefault, or remove appArmorProfile",
        _security("appArmorProfile", "type", harmless=_PROFILES),
    ),
    "seLinux": Use(
        "another SELinux domain",
        "remove type, user and role of seLinuxOptions",
        (
            *_security("seLinuxOptions", "type", harmless=_SE_LINUX),
            *_security("seLinuxOptions", "user", harmless=("",)),
            *_security("seLinuxOptions", "role", harmless=("",)),
        ),
    ),
    "sysctls": Use(
        "a kernel parameter that other pods share",
        "remove it",
        (_pod("securityContext", "sysctls", ITEM, "name", harmless=_SYSCTLS),),
    ),
    "probeHosts": Use(
        "a request of the kubelet to another host",
        "remove host: the pod itself is asked",
        tuple(
            _container(*handler, kind, "host", harmless=("",))
            for handler in _HANDLERS
            for kind in ("httpGet", "tcpSocket")
        ),
    ),
    "resourceClaims": Use("a claim for devices", "remove it, and request a resource that counts them", ()),
}
"""The uses by their name in a policy. For claims, which several kinds of objects have, it has no fields."""
