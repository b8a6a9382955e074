"""Rules of policies about DNS names and about the controller that manages a set. Pure."""

from collections.abc import Iterator

from api.keys import CONTROLLER_NAME
from kube.model.field import SPEC, ErrorType, FieldError
from policy.judged import Judged, Namespace
from policy.rule_types import ManagedBy
from policy.rules.words import PolicyRule, declared, one_of

DNS = declared("networkDNS", ErrorType.FORBIDDEN, "DNS names have to be {wanted}", "set it to {value}")
MANAGER = declared("managedBy", ErrorType.NOT_SUPPORTED, "this controller is not allowed", "{allowed}")


def network_dns(rule: str, judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Pods of a set have to have DNS names (`Enabled`), or must not have any (`Disabled`).

    The field is `spec.network.enableDNSHostnames`, which is true for a set that does not say it.
    """
    wanted = rule == "Enabled"
    if judged.js.dns_enabled != wanted:
        path, value = SPEC.at("network", "enableDNSHostnames"), "true" if wanted else "false"
        yield DNS.at(path, judged.js.dns_enabled, wanted=rule.lower(), value=value)


def managed_by(rule: ManagedBy, judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Only certain controllers may manage a set: `spec.managedBy`.

    A set without the field is managed by `jobset.sigs.k8s.io/jobset-controller`, which has to be in the list, too.
    """
    yield from one_of(MANAGER, SPEC.at("managedBy"), judged.js.spec.managed_by or CONTROLLER_NAME, rule.allowed)


RULES = (
    PolicyRule("networkDNS", (DNS,), network_dns, reads=("spec.network.enableDNSHostnames",)),
    PolicyRule("managedBy", (MANAGER,), managed_by, reads=("spec.managedBy",)),
)
