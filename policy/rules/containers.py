"""Rules of policies about containers: amounts that they have to state, and what they may not use of a node. Pure."""

from collections.abc import Callable, Collection, Iterator, Mapping

from api.field import ErrorType, FieldError, Path, Rule
from api.meta import JSON
from api.requests import is_of_pods
from policy.judged import Judged, Namespace, Template
from policy.rule_types import RequiredResources
from policy.rules.resources import claims_of_groups, claims_of_pods
from policy.rules.words import PolicyRule, declared

REQUEST = declared("requiredRequests", ErrorType.REQUIRED, "", "state how much {resource} the container requests")
LIMIT = declared("requiredLimits", ErrorType.REQUIRED, "", "state how much {resource} the container may use at most")


def required_requests(rule: RequiredResources, judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Every container and init container has to state requests of certain resources.

    A limit counts as the request, because the API server takes it for one. A request or limit of the pod as a whole
    counts for all its containers. Defaults of a LimitRange are set on pods later, and do not count. The container of
    `failurePolicy.agent` is not asked: it states what it needs by itself.
    """
    for template in judged.templates:
        whole = _stated(template.pod, "requests", "limits")
        wanted = [name for name in rule.resources if not (is_of_pods(name) and name in whole)]
        yield from _missing(template, wanted, REQUEST, "requests", "limits")


def required_limits(rule: RequiredResources, judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Every container and init container has to state limits of certain resources.

    A limit of the pod as a whole counts for all its containers. Defaults of a LimitRange are set on pods later, and do
    not count. The container of `failurePolicy.agent` is not asked: its author cannot state any.
    """
    for template in judged.templates:
        whole = _stated(template.pod, "limits")
        wanted = [name for name in rule.resources if not (is_of_pods(name) and name in whole)]
        yield from _missing(template, wanted, LIMIT, "limits")


def _stated(holder: JSON, *kinds: str) -> Mapping[str, object]:
    resources: JSON = holder.get("resources") or {}
    stated: Mapping[str, object] = {}
    for kind in kinds:
        stated = {**stated, **(resources.get(kind) or {})}
    return stated


def _missing(template: Template, wanted: list[str], rule: Rule, *kinds: str) -> Iterator[FieldError]:
    for field, i, container in template.own_containers if wanted else ():
        stated = _stated(container, *kinds)
        for name in wanted:
            if name not in stated:
                yield rule.at(template.at(field, i, "resources", kinds[0], name), resource=name)


FORBIDDEN = declared("forbid", ErrorType.FORBIDDEN, "{what} is not allowed", "{fix}")


def _host_network(template: Template) -> Iterator[FieldError]:
    if template.pod.get("hostNetwork"):
        path = template.at("hostNetwork")
        yield FORBIDDEN.at(path, what="the network of the node", fix="remove hostNetwork")


def _host_path(template: Template) -> Iterator[FieldError]:
    for i, volume in enumerate(template.pod.get("volumes") or ()):
        if volume.get("hostPath") is not None:
            path = template.at("volumes", i, "hostPath")
            yield FORBIDDEN.at(path, what="a directory of the node", fix="use a claim, an emptyDir or an image volume")


def _privileged(template: Template) -> Iterator[FieldError]:
    for field, i, container in template.containers:
        if (container.get("securityContext") or {}).get("privileged"):
            path = template.at(field, i, "securityContext", "privileged")
            yield FORBIDDEN.at(path, what="a privileged container", fix="remove privileged, and add the capabilities")


def _host_ports(template: Template) -> Iterator[FieldError]:
    for field, i, container in template.containers:
        for j, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                path = template.at(field, i, "ports", j, "hostPort")
                yield FORBIDDEN.at(path, what="a port of the node", fix="remove hostPort: pods have addresses")


def _resource_claims(template: Template) -> Iterator[FieldError]:
    return map(_claim, claims_of_pods(template))


def _claim(path: Path) -> FieldError:
    return FORBIDDEN.at(path, what="a claim for devices", fix="remove it, and request a resource that counts them")


_FORBIDDEN: Mapping[str, Callable[[Template], Iterator[FieldError]]] = {
    "hostNetwork": _host_network,
    "hostPath": _host_path,
    "hostPorts": _host_ports,
    "privileged": _privileged,
    "resourceClaims": _resource_claims,
}


def _used(template: Template) -> Collection[str]:
    """Which of these the pods of a template use."""
    return [what for what, found in _FORBIDDEN.items() if any(True for _ in found(template))]


def forbid(rule: tuple[str, ...], judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Pods may not use certain things of their node.

    `hostNetwork`: its network. `hostPath`: volumes that are directories of the node. `hostPorts`: its ports.
    `privileged`: privileged containers or init containers. `resourceClaims`: claims for devices, of pods and of their
    groups, and resources named `deviceclass.resource.kubernetes.io/CLASS`, for which kube-scheduler makes a claim.
    """
    for template, used in zip(judged.templates, judged.each(_used), strict=True):
        for what in rule:
            if what in used:
                yield from _FORBIDDEN[what](template)
    if "resourceClaims" in rule:
        yield from map(_claim, claims_of_groups(judged.js))


RULES = (
    PolicyRule("requiredRequests", (REQUEST,), required_requests),
    PolicyRule("requiredLimits", (LIMIT,), required_limits),
    PolicyRule("forbid", (FORBIDDEN,), forbid),
)
