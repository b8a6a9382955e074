"""DNS names of the set that do not resolve, and host names that are too long. Warnings only. Pure."""

from collections.abc import Iterator

from api.names import job_name, subdomain
from kube.model.field import SPEC, FieldError
from webhooks.jobset.rules import Source
from webhooks.jobset.subject import Entry, Subject

NETWORK = SPEC.at("network", "enableDNSHostnames")
MAX_HOST_NAME = 64
"""Characters of a host name that Linux allows."""
_SERVICE_DOMAIN = "svc.cluster.local"

NO_DNS = Source("docs/reference/names-and-labels.md#headless-service").warning(
    "dns-off",
    "false: {what} does not resolve",
    "set it to true",
)
_DOCS = Source("docs/reference/validation.md#addresses")
HOST_NETWORK = _DOCS.warning(
    "host-network-dns",
    "such a pod asks the DNS of its node, where no name of the set resolves",
    "write dnsPolicy: ClusterFirstWithHostNet",
)
OWN_SUBDOMAIN = _DOCS.warning(
    "subdomain-replaced",
    'replaced by "{subdomain}": no name below "{own}" resolves',
    "write it as spec.network.subdomain, or remove it",
)
LONG_HOST_NAME = _DOCS.warning(
    "host-name-too-long",
    "a host name of {length} characters, and the kernel allows 64: the pod never starts",
    "shorten the names, or leave setHostnameAsFQDN out",
)


def check_dns_off(subject: Subject) -> Iterator[FieldError]:
    """Findings if DNS names are off, but the coordinator or the subdomain needs them."""
    network = subject.js.spec.network
    if network is None or network.enable_dns_hostnames is not False:
        return
    if subject.js.spec.coordinator is not None:
        yield NO_DNS.at(NETWORK, what="the coordinator's address")
    elif network.subdomain:
        yield NO_DNS.at(NETWORK, what="the subdomain")


def check_pods(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Findings about fields of a pod by which the pod does not resolve names of the set, or never starts."""
    pod, path, set_subdomain = entry.job.template.spec, entry.pod_path.at("spec"), subdomain(subject.js)
    if subject.js.dns_enabled:
        if _uses_dns_of_node(entry) and subject.pod_count > 1:
            yield HOST_NETWORK.at(path.at("hostNetwork"), True)
        if isinstance(pod.subdomain, str) and pod.subdomain not in {"", set_subdomain}:
            yield OWN_SUBDOMAIN.at(path.at("subdomain"), pod.subdomain, subdomain=set_subdomain, own=pod.subdomain)
    pod_subdomain = set_subdomain if subject.js.dns_enabled else pod.subdomain
    if pod.set_hostname_as_fqdn is True and pod.host_network is not True and pod_subdomain:
        namespace = subject.js.metadata.namespace or "default"
        length = len(f"{_longest_host(subject, entry)}.{pod_subdomain}.{namespace}.{_SERVICE_DOMAIN}")
        if length > MAX_HOST_NAME:
            yield LONG_HOST_NAME.at(path.at("setHostnameAsFQDN"), True, length=length)


def _uses_dns_of_node(entry: Entry) -> bool:
    pod = entry.job.template.spec
    return pod.host_network is True and pod.dns_config is None and pod.dns_policy in (None, "", "ClusterFirst")


def _longest_host(subject: Subject, entry: Entry) -> str:
    """The host name of the pod with the highest indexes. A pod of a NonIndexed Job has five random characters."""
    job = job_name(subject.name, entry.rjob.name, max(entry.rjob.replicas - 1, 0))
    is_indexed = entry.job.completion_mode != "NonIndexed"
    return f"{job}-{max((entry.job.completions or 1) - 1, 0) if is_indexed else 'xxxxx'}"
