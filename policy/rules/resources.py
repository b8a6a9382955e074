"""The rule `allowedResources` of policies, and functions for rules about claims for devices. Pure."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated

from kube.model.field import SPEC, ErrorType, FieldError, Path, quote
from kube.model.job_rules.resources import check_container_resource_name as container_resource_faults
from kube.model.requests import DEVICE_CLASS, is_device_class, resource_holders
from kube.model.suggest import nearest
from policy.cel import (
    Cel,
    CelPath,
    Index,
    Root,
    Writer,
    cel_path,
    concat_lists,
    container_path,
    key_path,
    pod_path,
    template_path,
    text,
    texts,
)
from policy.fields import Key, list_of
from policy.judged import JudgedJobSet, Namespace, Template
from policy.rule import PolicyRule, check_allowed, container_fields, findings_only, job_fields, not_allowed, pod_fields
from policy.sentences import caution, sentence

RESOURCE = sentence("allowedResources", ErrorType.NOT_SUPPORTED, "this resource is not allowed", "{allowed}")
NO_RESOURCE = caution("no-resource", "no container can ask for a resource of this name", "{known}", "README")


def unknown_resource(name: str, path: Path) -> Iterator[FieldError]:
    """The warning that no container can request a resource of this name. `path`: the path of the name in a policy."""
    if any(container_resource_faults(path, name)):
        yield NO_RESOURCE.at(path, name, known=partial(_known_resource, name))


def unknown_resources(names: tuple[str, ...], path: Path) -> Iterator[FieldError]:
    """Warnings about unknown names in a list of resources. `path`: the path of the list in a policy."""
    for i, name in enumerate(names):
        yield from unknown_resource(name, path.at(i))


def _known_resource(name: str) -> str:
    close = nearest(name, ("cpu", "memory", "ephemeral-storage"))
    return f"did you mean {quote(close)}?" if close else "write it with its domain, such as nvidia.com/gpu"


def find_allowed_resources(rule: tuple[str, ...], judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
    """Pods may request or limit only certain resources, each by its whole name.

    So pods cannot evade a limit by another name for the same devices, such as the extendedResourceName of a
    DeviceClass. Claims for devices are not resources. The rule `forbid` refuses claims, and `maxTotals` counts them.
    """
    for template in judged.templates:
        for path, name in _named_resources(template):
            yield from check_allowed(RESOURCE, path, name, rule)


_KINDS = ("requests", "limits")


def _named_resources(template: Template) -> Iterator[tuple[Path, str]]:
    """The resources that a pod, its containers or its overhead name, each after its path."""
    for parts, holder in resource_holders(template.rjob.pod_spec):
        for kind in _KINDS:
            for name in (holder.get("resources") or {}).get(kind) or ():
                yield template.pod_path.at(*parts, "resources", kind, name), name
    for name in template.pod.get("overhead") or ():
        yield template.pod_path.at("overhead", name), name


def claims_of_pods(template: Template) -> Iterator[Path]:
    """The paths of claims for devices by the pods of a template, and of resources that stand for a DeviceClass."""
    for i, _ in enumerate(template.pod.get("resourceClaims") or ()):
        yield template.pod_path.at("resourceClaims", i)
    yield from (path for path, name in _named_resources(template) if is_device_class(name))


def claims_of_groups(judged: JudgedJobSet) -> Iterator[Path]:
    """The paths of claims for devices that groups of pods share."""
    for template in judged.templates:
        for k, _ in enumerate(template.claims_of_job):
            yield template.job_path.at("scheduling", "resourceClaims", k)
    for i, entry in enumerate(judged.groups):
        path = SPEC.at("scheduling", "replicatedJobs", i)
        for claims_path, claims in (
            (path, entry.resource_claims),
            (path.at("job"), entry.job and entry.job.resource_claims),
        ):
            yield from (claims_path.at("resourceClaims", k) for k, _ in enumerate(claims or ()))


_RESOURCE_NAME_FIELDS = (
    *container_fields("resources.requests{}", "resources.limits{}"),
    *pod_fields("resources.requests{}", "resources.limits{}", "overhead{}"),
)
_CLAIM_HOLDERS = (
    *pod_fields(""),
    *job_fields("scheduling."),
    "spec.scheduling.replicatedJobs[].",
    "spec.scheduling.replicatedJobs[].job.",
)
CLAIM_FIELDS = (
    *(
        f"{holder}resourceClaims[].{field}"
        for holder in _CLAIM_HOLDERS
        for field in ("resourceClaimName", "resourceClaimTemplateName")
    ),
    *_RESOURCE_NAME_FIELDS,
)
"""The fields by which pods and their groups claim devices."""
# In the CEL, `r` is the name of a resource, `i` the index of a ReplicatedJob, `p` its pod spec, and `x.c` a container.
_NAME_PATH = key_path("", "string(r)")
CEL_GROUPS = "{}.?spec.?scheduling.?replicatedJobs.orValue([])"
"""A template for the list of `spec.scheduling.replicatedJobs` in CEL."""
CEL_CLAIMS_OF_JOB = "j.?template.?spec.?scheduling.?resourceClaims.orValue([])"
"""In CEL, the claims of the ReplicatedJob `j`. The pods of each of its Jobs share the Job's claims."""
CEL_IS_DEVICE_CLASS = f"string(r).startsWith({text(DEVICE_CLASS)})"
"""In CEL, whether the resource name `r` stands for a DeviceClass."""


@findings_only
def compile_allowed_resources(rule: tuple[str, ...], writer: Writer, root: Root) -> Cel:
    return concat_lists(
        *_findings_by_resource(
            root, f"!(r in {texts(rule)})", lambda at: not_allowed(RESOURCE, at, "string(r)", rule, writer)
        )
    )


def _findings_by_resource(root: Root, condition: str, finding: Callable[[CelPath], Cel]) -> list[Cel]:
    """Expressions for findings about resources `r` of pods, containers and overheads for which `condition` holds."""
    pods, lists = root.variable("changedPods"), []

    def name_findings(names: str, at: CelPath) -> str:
        return f"{names}.orValue({{}}).transformList(r, a, {condition}, {finding(at)})"

    for kind in _KINDS:
        in_container = container_path(f".resources.{kind}", _NAME_PATH)
        findings = name_findings(f"x.c.?resources.?{kind}", in_container)
        lists.append(f"{root.variable('containers')}.filter(x, has(x.c.resources)).map(x, {findings}).flatten()")
        findings = name_findings(f"p.?resources.?{kind}", pod_path("i", f".resources.{kind}", _NAME_PATH))
        lists.append(f"{pods}.transformList(i, p, has(p.resources), {findings}).flatten()")
    findings = name_findings("p.?overhead", pod_path("i", ".overhead", _NAME_PATH))
    lists.append(f"{pods}.transformList(i, p, has(p.overhead), {findings}).flatten()")
    return [Cel(expression) for expression in lists]


def compile_claims(root: Root, finding: Callable[[CelPath], Cel]) -> Cel:
    """An expression for findings at all claims for devices, by pods and groups, and by resources of a DeviceClass."""
    claim = finding(pod_path("i", ".resourceClaims", Index("k")))
    pod_claims = (
        f"{root.variable('changedPods')}.transformList(i, p, p.?resourceClaims.orValue([])"
        f".transformList(k, c, {claim})).flatten()"
    )
    at = template_path("i", ".template.spec.scheduling.resourceClaims", Index("k"))
    findings = f"{CEL_CLAIMS_OF_JOB}.transformList(k, c, {finding(at)})"
    of_groups = [Cel(f"{root.variable('jobs')}.transformList(i, j, {findings}).flatten()")]
    for field in ("", ".job"):
        at = cel_path("spec.scheduling.replicatedJobs", Index("i"), f"{field}.resourceClaims", Index("k"))
        holder = f"e{field.replace('.', '.?')}"
        findings = f"{holder}.?resourceClaims.orValue([]).transformList(k, c, {finding(at)})"
        of_groups.append(Cel(f"{CEL_GROUPS.format(root.name)}.transformList(i, e, {findings}).flatten()"))
    return concat_lists(Cel(pod_claims), *_findings_by_resource(root, CEL_IS_DEVICE_CLASS, finding), *of_groups)


AllowedResourcesRule = Annotated[
    tuple[Key, ...] | None,
    list_of("Names of resources that pods may request, such as cpu or nvidia.com/gpu."),
    PolicyRule(
        "allowedResources",
        (RESOURCE,),
        find_allowed_resources,
        compile_allowed_resources,
        reads=_RESOURCE_NAME_FIELDS,
        cautions=unknown_resources,
    ),
]
