"""DNS names that do not resolve because they are switched off. Warnings only."""

from collections.abc import Iterator

from kube.model.field import SPEC, FieldError
from webhooks.jobset.rules import Source
from webhooks.jobset.subject import Subject

NETWORK = SPEC.at("network", "enableDNSHostnames")

NO_DNS = Source("docs/reference/names-and-labels.md#headless-service").warning(
    "dns-off",
    "false: {what} does not resolve",
    "set it to true",
)


def resolves(subject: Subject) -> Iterator[FieldError]:
    """Without DNS names a coordinator's address and the names below a subdomain do not resolve."""
    network = subject.js.spec.network
    if network is None or network.enable_dns_hostnames is not False:
        return
    if subject.js.spec.coordinator is not None:
        yield NO_DNS.at(NETWORK, what="the coordinator's address")
    elif network.subdomain:
        yield NO_DNS.at(NETWORK, what="the subdomain")
