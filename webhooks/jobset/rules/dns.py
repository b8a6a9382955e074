"""DNS names of pods that are switched off, and then lead nowhere. Warnings only."""

from collections.abc import Iterator

from api.field import SPEC, ErrorType, FieldError, Rule, Severity
from webhooks.jobset.subject import Subject

NETWORK = SPEC.at("network", "enableDNSHostnames")

NO_DNS = Rule(
    id="dns-off",
    type=ErrorType.INVALID,
    message="false: {what} leads nowhere",
    fix="set it to true",
    source="docs/reference/names-and-labels.md#headless-service",
    severity=Severity.WARNING,
)


def leads_somewhere(subject: Subject) -> Iterator[FieldError]:
    """Without DNS names a coordinator's address and a subdomain lead nowhere."""
    network = subject.js.spec.network
    if network is None or network.enable_dns_hostnames is not False:
        return
    if subject.js.spec.coordinator is not None:
        yield NO_DNS.at(NETWORK, what="the coordinator's address")
    elif network.subdomain:
        yield NO_DNS.at(NETWORK, what="the subdomain")
