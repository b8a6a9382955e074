"""The rules about containers: ports, environment variables, probes, hooks, restart rules, resizing. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any

from kube.model.field import FieldError, Path
from kube.model.job_rules.checks import (
    Check,
    all_of,
    duplicate,
    duplicates,
    each,
    entries,
    fields,
    forbidden,
    invalid,
    is_integer,
    member,
    missing,
    needs,
    not_negative,
    number,
    one_of,
    pod_containers,
    text,
    too_many,
)
from kube.model.job_rules.forms import config_key, header_name, label, port_name, variable_name
from kube.model.job_rules.resources import container_resources
from kube.model.job_rules.security import CONTAINER_SECURITY
from kube.model.job_rules.volumes import field_of_pod, resource_of_container
from kube.model.jsontree import dig
from kube.model.validation import dns1123_subdomain

MAX_PORT = 65535
_PORT_RANGE = f"must be between 1 and {MAX_PORT}, inclusive"
_MAX_RESTART_RULES = 20
_GRACE_PERIOD = 30
"""Kubernetes' default of terminationGracePeriodSeconds."""


def _port_number(*, zero: bool) -> Check:
    return number(lambda port: (zero and port == 0) or 1 <= port <= MAX_PORT, _PORT_RANGE)


def _port_or_name(path: Path, value: Any) -> Iterator[FieldError]:
    yield from _port_number(zero=False)(path, value)
    yield from text(port_name, empty=True)(path, value)


def _container_port(path: Path, value: Any) -> Iterator[FieldError]:
    if value.get("containerPort") == 0:
        yield missing(path.at("containerPort"))


_PORT = fields(
    _container_port,
    name=text(port_name),
    containerPort=_port_number(zero=True),
    hostPort=_port_number(zero=True),
    protocol=one_of("SCTP", "TCP", "UDP"),
)


def _port_names(path: Path, value: Any) -> Iterator[FieldError]:
    names = ((path.at(i, "name"), port.get("name")) for i, port in entries(value))
    return duplicates((at, name) for at, name in names if name and not port_name(str(name)))


def _host_ports(containers: Iterable[tuple[Path, Any]]) -> Iterator[FieldError]:
    """Host ports that are used more than once."""
    return duplicates(
        (
            path.at("ports", p, "hostPort"),
            f"{port.get('protocol') or 'TCP'}/{port.get('hostIP') or ''}/{port['hostPort']}",
        )
        for path, container in containers
        for p, port in entries(container.get("ports"))
        if port.get("hostPort")
    )


def _exactly_one(words: str, *names: str) -> Check:
    """An object with exactly one of these members; `words`: their names in the message."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        present = [name for name in names if value.get(name) is not None]
        if not present:
            yield invalid(path, "", f"must specify one of: {words}")
        elif len(present) > 1:
            yield invalid(path, "", "may not have more than one field specified at a time")

    return check


_KEY = fields(needs("key"), member("name", "", text(dns1123_subdomain, empty=True)), key=text(config_key))
_REFERENCES = {
    "fieldRef": field_of_pod(
        "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
        "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
    ),
    "resourceFieldRef": resource_of_container(named=False),
    "configMapKeyRef": _KEY,
    "secretKeyRef": _KEY,
    "fileKeyRef": fields(needs("key", "volumeName", "path"), key=text(variable_name), volumeName=text(label)),
}  # fmt: skip
_ONE_REFERENCE = _exactly_one(
    "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`", *_REFERENCES
)


def _value_from(path: Path, variable: Any) -> Iterator[FieldError]:
    origin = variable.get("valueFrom")
    if not isinstance(origin, dict):
        return
    if variable.get("value") and any(origin.get(name) is not None for name in _REFERENCES):
        yield invalid(path.at("valueFrom"), "", "may not be specified when `value` is not empty")
    else:
        yield from _ONE_REFERENCE(path.at("valueFrom"), origin)


_VARIABLE = fields(needs("name"), _value_from, name=text(variable_name), valueFrom=fields(**_REFERENCES))
_ENV_FROM = fields(
    _exactly_one("`configMapRef` or `secretRef`", "configMapRef", "secretRef"),
    prefix=text(variable_name),
    configMapRef=fields(needs("name"), name=text(dns1123_subdomain)),
    secretRef=fields(needs("name"), name=text(dns1123_subdomain)),
)


def _one_handler(*kinds: str) -> Check:
    """A handler of exactly one kind. Of several kinds, all but the first in the API server's order are refused."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        present = [kind for kind in kinds if value.get(kind) is not None]
        if not present:
            yield missing(path, "must specify a handler type")
        for kind in present[1:]:
            yield forbidden(path.at(kind), "may not specify more than 1 handler type")
        if present:
            yield from _HANDLERS[present[0]](path.at(present[0]), value[present[0]])

    return check


def _http_2(path: Path, value: Any) -> Iterator[FieldError]:
    if value.get("protocol") == "HTTP2" and value.get("scheme", "HTTP") != "HTTP":
        yield invalid(path.at("protocol"), "HTTP2", "is only supported with HTTP (H2C)")
    elif value.get("protocol") == "HTTP2" and value.get("host"):
        yield invalid(path.at("host"), value["host"], 'must be empty when `protocol` is "HTTP2"')


_HANDLERS: dict[str, Check] = {
    "exec": fields(needs("command")),
    "httpGet": fields(
        _http_2,
        port=_port_or_name,
        scheme=one_of("HTTP", "HTTPS"),
        httpHeaders=each(fields(name=text(header_name, empty=True))),
        protocol=one_of("HTTP1", "HTTP2", empty=True),
    ),
    "tcpSocket": fields(port=_port_or_name),
    "grpc": fields(member("port", 0, _port_number(zero=False)), mode=one_of("Plaintext", "TLS", empty=True)),
    "sleep": fields(),
}
_PROBE = fields(
    _one_handler("exec", "httpGet", "tcpSocket", "grpc"),
    initialDelaySeconds=not_negative,
    timeoutSeconds=not_negative,
    periodSeconds=not_negative,
    successThreshold=not_negative,
    failureThreshold=not_negative,
    terminationGracePeriodSeconds=number(lambda seconds: seconds > 0, "must be greater than 0"),
)
_ONE_SUCCESS = fields(successThreshold=number(lambda times: times in (0, 1), "must be 1"))


def _no_grace_period(path: Path, value: Any) -> Iterator[FieldError]:
    if value.get("terminationGracePeriodSeconds") is not None:
        seconds = value["terminationGracePeriodSeconds"]
        yield invalid(path.at("terminationGracePeriodSeconds"), seconds, "must not be set for readinessProbes")


_PROBES: dict[str, Check] = {
    "livenessProbe": all_of(_PROBE, _ONE_SUCCESS),
    "readinessProbe": all_of(_PROBE, fields(_no_grace_period)),
    "startupProbe": all_of(_PROBE, _ONE_SUCCESS),
}
_HOOK = fields(_one_handler("exec", "httpGet", "tcpSocket", "sleep"))
_HOOKS_AND_PROBES = fields(lifecycle=fields(postStart=_HOOK, preStop=_HOOK), **_PROBES)
"""Fields of containers and sidecars; other init containers must not have them."""


def _sleeps(path: Path, container: Any, grace_period: int) -> Iterator[FieldError]:
    for hook in ("postStart", "preStop"):
        sleep = dig(container, "lifecycle", hook, "sleep")
        seconds = sleep.get("seconds") or 0 if isinstance(sleep, dict) else None
        if is_integer(seconds) and not 0 <= seconds <= grace_period:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_period})"
            yield invalid(path.at("lifecycle", hook, "sleep"), seconds, detail)


def _restart_rules(path: Path, value: Any) -> Iterator[FieldError]:
    rules = value.get("restartPolicyRules") or []
    if rules and value.get("restartPolicy") is None:
        yield missing(path.at("restartPolicy"), "must specify restartPolicy when restart rules are used")
    if len(rules) > _MAX_RESTART_RULES:
        yield too_many(path.at("restartPolicyRules"), len(rules), _MAX_RESTART_RULES)
    for i, rule in entries(rules):
        if rule.get("exitCodes") is None:
            yield missing(path.at("restartPolicyRules", i, "exitCodes"), "must be specified")
        yield from _RESTART_RULE(path.at("restartPolicyRules", i), rule)


_RESTART_RULE = fields(
    action=one_of("Restart", "RestartAllContainers", empty=True),
    exitCodes=fields(operator=one_of("In", "NotIn", empty=True)),
)


_RESIZE = fields(
    needs("resourceName", "restartPolicy"),
    resourceName=one_of("cpu", "memory"),
    restartPolicy=one_of("NotRequired", "RestartContainer"),
)


def _resizes(path: Path, value: Any) -> Iterator[FieldError]:
    yield from each(_RESIZE)(path, value)
    yield from duplicates((path.at(i), policy.get("resourceName")) for i, policy in entries(value))


_CONTAINER = fields(
    needs("name", "image"),
    _restart_rules,
    name=text(label),
    terminationMessagePolicy=one_of("File", "FallbackToLogsOnError"),
    ports=all_of(_port_names, each(_PORT)),
    env=each(_VARIABLE),
    envFrom=each(_ENV_FROM),
    imagePullPolicy=one_of("Always", "IfNotPresent", "Never"),
    resources=container_resources,
    resizePolicy=_resizes,
    securityContext=CONTAINER_SECURITY,
    restartPolicy=one_of("Always", "Never", "OnFailure", empty=True),
)


def containers(path: Path, pod: Any) -> Iterator[FieldError]:
    """A check of a pod's containers and init containers."""
    grace = pod.get("terminationGracePeriodSeconds")
    grace = grace if is_integer(grace) else _GRACE_PERIOD
    containers_path, init_path = path.at("containers"), path.at("initContainers")
    names: set[Any] = set()
    if not pod.get("containers"):
        yield missing(containers_path)
    for i, container in entries(pod.get("containers")):
        yield from _container(containers_path.at(i), container, names)
        names.add(container.get("name") or "")
        yield from _hooks_and_probes(containers_path.at(i), container, grace)
    yield from _host_ports((containers_path.at(i), container) for i, container in entries(pod.get("containers")))
    for i, container in entries(pod.get("initContainers")):
        yield from _container(init_path.at(i), container, names)
        names |= {container["name"]} if container.get("name") else set()
        if container.get("restartPolicy") == "Always":
            yield from _hooks_and_probes(init_path.at(i), container, grace)
        else:
            for key in ("lifecycle", *_PROBES):
                if container.get(key) is not None:
                    detail = "may not be set for init containers without restartPolicy=Always"
                    yield forbidden(init_path.at(i, key), detail)
        yield from _host_ports([(init_path.at(i), container)])
    if pod.get("hostNetwork"):
        yield from _host_network_ports(containers_path, pod.get("containers"))
    if pod.get("restartPolicy") == "Never":
        yield from _resizes_without_restart(path, pod)


def _container(path: Path, container: Any, names: set[Any]) -> Iterator[FieldError]:
    yield from _CONTAINER(path, container)
    if (name := container.get("name") or "") in names:
        yield duplicate(path.at("name"), name)


def _hooks_and_probes(path: Path, container: Any, grace_period: int) -> Iterator[FieldError]:
    yield from _HOOKS_AND_PROBES(path, container)
    yield from _sleeps(path, container, grace_period)


def _resizes_without_restart(path: Path, pod: Any) -> Iterator[FieldError]:
    for container_path, container in pod_containers(path, pod):
        for i, policy in entries(container.get("resizePolicy")):
            if (restart_policy := policy.get("restartPolicy") or "") != "NotRequired":
                detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
                yield invalid(container_path.at("resizePolicy", i, "restartPolicy"), restart_policy, detail)


def _host_network_ports(path: Path, value: Any) -> Iterator[FieldError]:
    for c, container in entries(value):
        for p, port in entries(container.get("ports")):
            host_port = port.get("hostPort") or 0
            if host_port and host_port != port.get("containerPort"):
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(path.at(c, "ports", p, "hostPort"), host_port, detail)
