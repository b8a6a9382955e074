"""Rules of policies about requests and limits that containers have to state. Pure."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated

from kube.model.field import ErrorType, FieldError, Path, Rule
from kube.model.meta import JSON, Base, doc
from kube.model.requests import is_pod_resource
from policy.cel import Cel, Root, Writer, container_path, key_path, texts
from policy.fields import Key, list_of
from policy.judged import JudgedJobSet, Namespace
from policy.rule import PolicyRule, container_fields, findings_only, pod_fields
from policy.rules.resources import unknown_resources
from policy.sentences import sentence


class RequiredResources(Base, frozen=True, kw_only=True):
    """Resources for which containers have to state an amount."""

    resources: Annotated[tuple[Key, ...], list_of("Names of resources, such as cpu, memory or nvidia.com/gpu.")]


REQUEST = sentence("requiredRequests", ErrorType.REQUIRED, "", "state how much {resource} the container requests")
LIMIT = sentence("requiredLimits", ErrorType.REQUIRED, "", "state how much {resource} the container may use at most")


def find_required_requests(rule: RequiredResources, judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
    """Every container and init container has to state requests of certain resources.

    A limit counts as the request, because the API server sets the request to the limit. A request or limit of the pod
    as a whole counts for all its containers. Defaults of a LimitRange are set on pods later, and do not count. The
    container of `failurePolicy.agent` is exempt, because the manager sets its requests.
    """
    return _find_missing(rule, judged, REQUEST, "requests", "limits")


def find_required_limits(rule: RequiredResources, judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
    """Every container and init container has to state limits of certain resources.

    A limit of the pod as a whole counts for all its containers. Defaults of a LimitRange are set on pods later, and do
    not count. The container of `failurePolicy.agent` is exempt, because the author cannot set its limits.
    """
    return _find_missing(rule, judged, LIMIT, "limits")


def _find_missing(rule: RequiredResources, judged: JudgedJobSet, missing: Rule, *kinds: str) -> Iterator[FieldError]:
    """A finding for each container and resource without an amount in the fields `kinds` (`requests`, `limits`).

    The path of the finding is in the first of these fields.
    """
    for template in judged.templates:
        pod_amounts = _amounts(template.pod, *kinds)
        names = [name for name in rule.resources if not (is_pod_resource(name) and name in pod_amounts)]
        for field, i, container in template.own_containers if names else ():
            amounts = _amounts(container, *kinds)
            for name in names:
                if name not in amounts:
                    yield missing.at(template.at(field, i, "resources", kinds[0], name), resource=name)


def _amounts(holder: JSON, *kinds: str) -> Mapping[str, object]:
    """The amounts in the fields `kinds` of a container, or of a pod as a whole, by resource."""
    resources: JSON = holder.get("resources") or {}
    return {name: amount for kind in kinds for name, amount in (resources.get(kind) or {}).items()}


_LIMIT_FIELDS = (*container_fields("resources.limits{}"), *pod_fields("resources.limits{}"))
_REQUEST_FIELDS = (*container_fields("resources.requests{}"), *pod_fields("resources.requests{}"), *_LIMIT_FIELDS)


def _compile_missing(missing: Rule, kinds: tuple[str, ...], rule: RequiredResources, writer: Writer, root: Root) -> Cel:
    """An expression for the findings of `_find_missing`. In the CEL, `x.c` is a container, and `x.p` its pod spec."""
    pod_resources = texts(filter(is_pod_resource, rule.resources))

    def has_amount(holder: str) -> str:
        return " || ".join(f"{holder}.?resources.?{kind}[?r].hasValue()" for kind in kinds)

    at = key_path(f".resources.{kinds[0]}", "r")
    finding = writer.at(missing, *container_path(at), resource=Cel("r"))
    pod_has_amount = "false"
    if any(map(is_pod_resource, rule.resources)):
        pod_has_amount = f"(r in {pod_resources} && ({has_amount('x.p')}))"
    lacking = f"{root.variable('containers')}.filter(x, !({has_amount('x.c')} || {pod_has_amount}))"
    return Cel(f"{texts(rule.resources)}.map(r, {lacking}.map(x, {finding})).flatten()")


def _cautions(rule: RequiredResources, path: Path) -> Iterator[FieldError]:
    return unknown_resources(rule.resources, path.at("resources"))


RequiredRequestsRule = Annotated[
    RequiredResources | None,
    doc("Requests that containers have to state."),
    PolicyRule(
        "requiredRequests",
        (REQUEST,),
        find_required_requests,
        findings_only(partial(_compile_missing, REQUEST, ("requests", "limits"))),
        reads=_REQUEST_FIELDS,
        cautions=_cautions,
    ),
]
RequiredLimitsRule = Annotated[
    RequiredResources | None,
    doc("Limits that containers have to state."),
    PolicyRule(
        "requiredLimits",
        (LIMIT,),
        find_required_limits,
        findings_only(partial(_compile_missing, LIMIT, ("limits",))),
        reads=_LIMIT_FIELDS,
        cautions=_cautions,
    ),
]
