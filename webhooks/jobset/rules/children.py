"""Settings that are taken and then do something else than their author thinks. Warnings only."""

from collections.abc import Iterator

from api.field import SPEC, ErrorType, FieldError, Rule, Severity
from webhooks.jobset.subject import Entry, Subject

NETWORK = SPEC.at("network", "enableDNSHostnames")

TTL = Rule(
    id="child-ttl",
    type=ErrorType.INVALID,
    message="a finished Job is deleted, then run again",
    fix="unset it",
    source="behaviour 7.1 item 17",
    severity=Severity.WARNING,
)
NO_DNS = Rule(
    id="dns-off",
    type=ErrorType.INVALID,
    message="false: {what} leads nowhere",
    fix="set it to true",
    source="behaviour 1.7 and 1.8",
    severity=Severity.WARNING,
)


def ttl(_: Subject, entry: Entry) -> Iterator[FieldError]:
    """A child Job that goes when it is done takes the knowledge of its success with it."""
    if entry.job.ttl_seconds_after_finished is not None:
        path = entry.job_path.at("ttlSecondsAfterFinished")
        yield TTL.at(path, entry.job.ttl_seconds_after_finished)


def dns(subject: Subject) -> Iterator[FieldError]:
    """Without DNS names a coordinator's address and a subdomain lead nowhere."""
    network = subject.js.spec.network
    if network is None or network.enable_dns_hostnames is not False:
        return
    if subject.js.spec.coordinator is not None:
        yield NO_DNS.at(NETWORK, what="the coordinator's address")
    elif network.subdomain:
        yield NO_DNS.at(NETWORK, what="the subdomain")
