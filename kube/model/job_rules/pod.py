"""The rules about a pod template. Pure."""

from collections.abc import Iterator
from typing import Any

from kube.model.field import FieldError, Path
from kube.model.job_rules.checks import (
    all_of,
    between,
    duplicates,
    each,
    entries,
    fields,
    forbidden,
    invalid,
    missing,
    needs,
    not_empty,
    not_supported,
    one_of,
    text,
)
from kube.model.job_rules.containers import containers
from kube.model.job_rules.forms import ip_address, label, search_domain
from kube.model.job_rules.metadata import key, labels, metadata
from kube.model.job_rules.resources import claims, overhead, pod_resources
from kube.model.job_rules.scheduling import AFFINITY, TOLERATION, scheduling_gates, spread_constraints
from kube.model.job_rules.security import POD_SECURITY, host_namespaces
from kube.model.job_rules.volumes import volumes
from kube.model.jsontree import dig, items
from kube.model.meta import MAX_INT32
from kube.model.validation import dns1123_subdomain

_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_CHARACTERS = 2048
_NAME = text(dns1123_subdomain)
_NONEMPTY_NAME = text(dns1123_subdomain, empty=True)


def _dns(path: Path, pod: Any) -> Iterator[FieldError]:
    config, config_path = pod.get("dnsConfig"), path.at("dnsConfig")
    if pod.get("dnsPolicy") == "None" and not items(config, "nameservers"):
        if config is None:
            yield missing(config_path, "must provide `dnsConfig` when `dnsPolicy` is None")
        else:
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield missing(config_path.at("nameservers"), detail)
        return
    yield from _DNS_CONFIG(config_path, config)


def _dns_sizes(path: Path, config: Any) -> Iterator[FieldError]:
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > _MAX_NAMESERVERS:
        yield invalid(path.at("nameservers"), servers, f"must not have more than {_MAX_NAMESERVERS} nameservers")
    if len(searches) > _MAX_SEARCHES:
        yield invalid(path.at("searches"), searches, f"must not have more than {_MAX_SEARCHES} search paths")
    if len(" ".join(map(str, searches))) > _MAX_SEARCH_CHARACTERS:
        detail = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        yield invalid(path.at("searches"), searches, detail)
    for i, option in entries(config.get("options")):
        if not option.get("name"):
            yield missing(path.at("options", i), "must not be empty")


_DNS_CONFIG = fields(
    _dns_sizes, nameservers=each(text(ip_address, empty=True)), searches=each(text(search_domain, empty=True))
)


def _account(path: Path, pod: Any) -> Iterator[FieldError]:
    name, deprecated_name = pod.get("serviceAccountName"), pod.get("serviceAccount")
    if name and deprecated_name and name != deprecated_name:
        yield invalid(path.at("serviceAccount"), deprecated_name, f'must be the same as serviceAccountName: "{name}"')


def _hostname(path: Path, pod: Any) -> Iterator[FieldError]:
    if pod.get("hostnameOverride") is None:
        return
    for name in ("setHostnameAsFQDN", "hostNetwork"):
        if pod.get(name) is True:
            yield forbidden(path.at("hostnameOverride"), f"may not be specified when {name} is true")


def _claims(path: Path, pod: Any) -> Iterator[FieldError]:
    claims_path = path.at("resourceClaims")
    claims_by_index = list(entries(pod.get("resourceClaims")))
    yield from duplicates((claims_path.at(i, "name"), str(claim.get("name") or "")) for i, claim in claims_by_index)
    for i, claim in claims_by_index:
        kinds = [kind for kind in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(kind) is not None]
        if len(kinds) > 1:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield invalid(claims_path.at(i), claim, detail)
        elif not kinds:
            yield invalid(
                claims_path.at(i), claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            )
    yield from claims(path, pod)


def _no_ephemeral_containers(path: Path, pod: Any) -> Iterator[FieldError]:
    if pod.get("ephemeralContainers"):
        yield forbidden(path.at("ephemeralContainers"), "ephemeral containers not allowed in pod template")


def _os(path: Path, value: Any) -> Iterator[FieldError]:
    name = dig(value, "name")
    if isinstance(name, str) and name and name not in _SYSTEMS:
        yield not_supported(path, name, _SYSTEMS)


_SYSTEMS = ("linux", "windows")
_CLAIM = fields(
    needs("name"), name=text(label), resourceClaimName=_NONEMPTY_NAME, resourceClaimTemplateName=_NONEMPTY_NAME
)
SPEC = fields(
    volumes,
    containers,
    host_namespaces,
    _dns,
    _account,
    _hostname,
    _claims,
    _no_ephemeral_containers,
    activeDeadlineSeconds=between(1, MAX_INT32),
    affinity=AFFINITY,
    dnsPolicy=one_of("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    hostAliases=each(fields(ip=text(ip_address, empty=True), hostnames=each(_NONEMPTY_NAME))),
    hostname=text(label),
    hostnameOverride=_NONEMPTY_NAME,
    nodeName=_NAME,
    nodeSelector=labels,
    os=fields(needs("name"), _os),
    overhead=overhead,
    preemptionPolicy=all_of(not_empty, one_of("PreemptLowerPriority", "Never")),
    priorityClassName=_NAME,
    readinessGates=each(fields(conditionType=key)),
    resourceClaims=each(_CLAIM),
    resources=pod_resources,
    restartPolicy=one_of("Always", "OnFailure", "Never"),
    runtimeClassName=_NONEMPTY_NAME,
    schedulingGates=scheduling_gates,
    securityContext=POD_SECURITY,
    serviceAccountName=_NAME,
    subdomain=text(label),
    tolerations=each(TOLERATION),
    topologySpreadConstraints=spread_constraints,
)
TEMPLATE = fields(metadata=metadata, spec=SPEC)
"""A check of a pod template."""
