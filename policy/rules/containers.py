"""Rules of policies about containers: amounts that they have to state, and what they may not use of a node. Pure."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from kube.model.field import ErrorType, FieldError, Path, Rule
from kube.model.meta import JSON
from kube.model.requests import is_of_pods
from policy.judged import Judged, Namespace, Template
from policy.rule_types import RequiredResources
from policy.rules.node_uses import USES
from policy.rules.resources import CLAIMS, claims_of_groups, claims_of_pods
from policy.rules.words import PolicyRule, declared, of_containers, of_jobs, of_pods

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


# The API server still takes the profile from this annotation, where the field is absent.
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
APP_ARMOR_HARMLESS = ("", "runtime/default")
APP_ARMOR_LOCAL = "localhost/"


def _uses(what: str, template: Template) -> Iterator[FieldError]:
    use = USES[what]
    for path, value in use.found(template):
        yield FORBIDDEN.at(path, None if isinstance(value, dict) else value, what=use.what, fix=use.fix)


def _app_armor(template: Template) -> Iterator[FieldError]:
    yield from _uses("appArmor", template)
    use, path = USES["appArmor"], template.job_path.at("template", "metadata", "annotations")
    for key, value in template.annotations.items():
        if key.startswith(APP_ARMOR) and not (value in APP_ARMOR_HARMLESS or value.startswith(APP_ARMOR_LOCAL)):
            yield FORBIDDEN.at(path.at(key), value, what=use.what, fix=use.fix)


def _resource_claims(template: Template) -> Iterator[FieldError]:
    return map(_claim, claims_of_pods(template))


def _claim(path: Path) -> FieldError:
    return FORBIDDEN.at(path, what="a claim for devices", fix="remove it, and request a resource that counts them")


_FORBIDDEN: Mapping[str, Callable[[Template], Iterator[FieldError]]] = {
    **{what: partial(_uses, what) for what in USES},
    "appArmor": _app_armor,
    "resourceClaims": _resource_claims,
}


def _is_found(what: str, template: Template) -> bool:
    return any(True for _ in _FORBIDDEN[what](template))


_USED = {what: partial(_is_found, what) for what in _FORBIDDEN}
"""Whether the pods of a template use it: one look for all policies."""


def forbid(rule: tuple[str, ...], judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Pods may not use certain things of their node.

    - `hostNetwork`, `hostPID`, `hostIPC`: its network, its processes, its shared memory.
    - `hostPath`: volumes that are directories of the node. `hostPorts`: its ports.
    - `privileged`: privileged containers. `capabilities`: capabilities that containers do not have by themselves.
      `procMount`: another /proc than the default. `hostProcess`: processes of a Windows node.
    - `seccomp`, `appArmor`: containers without a profile of these. `seLinux`: another type than those for containers,
      another user or role. `sysctls`: parameters of the kernel that other pods share.
    - `probeHosts`: probes and lifecycle hooks with a `host`, by which the kubelet asks another host.

    - `resourceClaims`: claims for devices, of pods and of their groups, and resources named
      `deviceclass.resource.kubernetes.io/CLASS`, for which kube-scheduler makes a claim.

    All but the last are what the level Baseline of the Pod Security Standards forbids. Init containers are looked at as
    well. Nothing here demands that a field is set: for the level Restricted use Pod Security Admission.
    """
    for what in rule:
        for template, used in zip(judged.templates, judged.each(_USED[what]), strict=True):
            if used:
                yield from _FORBIDDEN[what](template)
    if "resourceClaims" in rule:
        yield from map(_claim, claims_of_groups(judged))


_LIMITS = (*of_containers("resources.limits{}"), *of_pods("resources.limits{}"))
_REQUESTS = (*of_containers("resources.requests{}"), *of_pods("resources.requests{}"), *_LIMITS)
_USED_FIELDS = (
    *(path for use in USES.values() for field in use.fields for path in field.paths),
    *of_jobs("template.metadata.annotations{}"),
    *CLAIMS,
)

RULES = (
    PolicyRule("requiredRequests", (REQUEST,), required_requests, reads=_REQUESTS),
    PolicyRule("requiredLimits", (LIMIT,), required_limits, reads=_LIMITS),
    PolicyRule("forbid", (FORBIDDEN,), forbid, reads=_USED_FIELDS),
)
