"""Rules of policies about DNS names and about the controller that manages a set. Pure."""

from collections.abc import Iterator
from typing import Annotated

from api.keys import CONTROLLER_NAME
from kube.model.field import SPEC, ErrorType, FieldError, Path
from kube.model.meta import Base, doc
from kube.model.validation import byte_length, dns1123_subdomain, http_path
from policy.cel import Cel, Root, Writer, list_if, text
from policy.fields import Word, has_wildcard, list_of
from policy.judged import JudgedJobSet, Namespace
from policy.rule import PolicyRule, check_allowed, compile_allowed, findings_only
from policy.sentences import caution, invalid, sentence

MAX_MANAGER_BYTES = 63
"""The maximum length of spec.managedBy in bytes."""
NO_MANAGER = invalid(
    "manager",
    ErrorType.INVALID,
    "no JobSet can have it in managedBy: {complaint}",
    "write the name of a controller, such as {own} for this one",
)
LOCKS_OUT = caution(
    "managed-by-locks-out",
    "JobSets without managedBy break the rule: they are managed by {own}",
    "add that to the list, or keep it so if this controller is to manage none",
    "managed-by",
)


class ManagedBy(Base, frozen=True, kw_only=True):
    """Controllers that may manage JobSets."""

    allowed: Annotated[tuple[Word, ...], list_of("Values of spec.managedBy. A set without one is managed by this one.")]

    def faults(self, path: Path) -> Iterator[FieldError]:
        """A fault for each name that no JobSet can have in managedBy."""
        for i, name in enumerate(self.allowed):
            host, _, suffix = name.partition("/")
            complaints = [*dns1123_subdomain(host), *http_path(suffix)]
            if not host or not suffix:
                complaints = ['must be a domain-prefixed path (such as "acme.io/foo")']
            if byte_length(name) > MAX_MANAGER_BYTES:
                complaints.append(f"may not be more than {MAX_MANAGER_BYTES} bytes")
            if complaints and not has_wildcard(name):
                yield NO_MANAGER.at(path.at("allowed", i), name, complaint=complaints[0], own=CONTROLLER_NAME)


DNS = sentence("networkDNS", ErrorType.FORBIDDEN, "DNS names have to be {wanted}", "set it to {value}")


def find_network_dns(rule: str, judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
    """Pods of a set have to have DNS names (`Enabled`), or must not have any (`Disabled`).

    The field is `spec.network.enableDNSHostnames`, which is true by default.
    """
    wanted = rule == "Enabled"
    if judged.js.dns_enabled != wanted:
        path, value = SPEC.at("network", "enableDNSHostnames"), "true" if wanted else "false"
        yield DNS.at(path, judged.js.dns_enabled, wanted=rule.lower(), value=value)


@findings_only
def compile_network_dns(rule: str, writer: Writer, root: Root) -> Cel:
    path, wanted = SPEC.at("network", "enableDNSHostnames"), "true" if rule == "Enabled" else "false"
    finding = writer.at(DNS, text(str(path)), wanted=rule.lower(), value=wanted)
    return list_if(f"{root.name}.?spec.?network.?enableDNSHostnames.orValue(true) != {wanted}", finding)


MANAGER = sentence("managedBy", ErrorType.NOT_SUPPORTED, "this controller is not allowed", "{allowed}")


def find_managed_by(rule: ManagedBy, judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
    """Only certain controllers may manage a set: `spec.managedBy`.

    A set without the field is managed by `jobset.sigs.k8s.io/jobset-controller`, which has to be in the list, too.
    """
    yield from check_allowed(MANAGER, SPEC.at("managedBy"), judged.js.spec.managed_by or CONTROLLER_NAME, rule.allowed)


@findings_only
def compile_managed_by(rule: ManagedBy, writer: Writer, root: Root) -> Cel:
    managed_by = f"{root.name}.?spec.?managedBy.orValue('')"
    value = f"optional.of({managed_by} == '' ? {text(CONTROLLER_NAME)} : {managed_by})"
    return compile_allowed(MANAGER, SPEC.at("managedBy"), value, rule.allowed, writer)


def _cautions(rule: ManagedBy, path: Path) -> Iterator[FieldError]:
    if CONTROLLER_NAME not in rule.allowed:
        yield LOCKS_OUT.at(path.at("allowed"), list(rule.allowed), own=CONTROLLER_NAME)


NetworkDNSRule = Annotated[
    str,
    doc("Whether pods have DNS names: spec.network.enableDNSHostnames.", enum=["Enabled", "Disabled"]),
    PolicyRule("networkDNS", (DNS,), find_network_dns, compile_network_dns, reads=("spec.network.enableDNSHostnames",)),
]
ManagedByRule = Annotated[
    ManagedBy | None,
    doc("spec.managedBy."),
    PolicyRule(
        "managedBy", (MANAGER,), find_managed_by, compile_managed_by, reads=("spec.managedBy",), cautions=_cautions
    ),
]
