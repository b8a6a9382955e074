"""Rules of policies about which resources and devices pods ask for. Pure."""

from collections.abc import Iterator

from kube.model.field import SPEC, ErrorType, FieldError, Path
from kube.model.requests import is_device_class
from policy.judged import Judged, Namespace, Template
from policy.rules.words import PolicyRule, declared, of_containers, of_jobs, of_pods, one_of

RESOURCE = declared("allowedResources", ErrorType.NOT_SUPPORTED, "this resource is not allowed", "{allowed}")


def allowed_resources(rule: tuple[str, ...], judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Pods may request or limit only certain resources, each by its whole name.

    So nothing that a cluster offers under another name goes around a limit, such as the devices of a DeviceClass with
    an extendedResourceName. Claims for devices are no resources: `forbid` refuses them, `maxTotals` counts them.
    """
    for template in judged.templates:
        for path, name in _named_resources(template):
            yield from one_of(RESOURCE, path, name, rule)


def _named_resources(template: Template) -> Iterator[tuple[Path, str]]:
    """Each resource that a pod, its containers or its overhead name, and where."""
    of_containers = ((template.pod_path.at(field, i), container) for field, i, container in template.own_containers)
    for place, holder in (*of_containers, (template.pod_path, template.pod)):
        for kind in ("requests", "limits"):
            for name in (holder.get("resources") or {}).get(kind) or ():
                yield place.at("resources", kind, name), name
    for name in template.pod.get("overhead") or ():
        yield template.pod_path.at("overhead", name), name


def claims_of_pods(template: Template) -> Iterator[Path]:
    """Where the pods of a template claim devices: by claims, and by resources that stand for a DeviceClass."""
    for i, _ in enumerate(template.pod.get("resourceClaims") or ()):
        yield template.pod_path.at("resourceClaims", i)
    yield from (path for path, name in _named_resources(template) if is_device_class(name))


def claims_of_groups(judged: Judged) -> Iterator[Path]:
    """Where groups of pods claim devices that they share."""
    for template in judged.templates:
        for k, _ in enumerate(template.claims_of_job):
            yield template.job_path.at("scheduling", "resourceClaims", k)
    scheduling = judged.js.spec.scheduling
    entries = scheduling.replicated_jobs if scheduling else ()
    for i, entry in enumerate(entries):
        path = SPEC.at("scheduling", "replicatedJobs", i)
        for place, claims in ((path, entry.resource_claims), (path.at("job"), entry.job and entry.job.resource_claims)):
            yield from (place.at("resourceClaims", k) for k, _ in enumerate(claims or ()))


_NAMES = (
    *of_containers("resources.requests{}", "resources.limits{}"),
    *of_pods("resources.requests{}", "resources.limits{}", "overhead{}"),
)
_HOLDERS = (
    *of_pods(""),
    *of_jobs("scheduling."),
    "spec.scheduling.replicatedJobs[].",
    "spec.scheduling.replicatedJobs[].job.",
)
CLAIMS = (
    *(
        f"{holder}resourceClaims[].{field}"
        for holder in _HOLDERS
        for field in ("resourceClaimName", "resourceClaimTemplateName")
    ),
    *_NAMES,
)
"""The fields by which pods and their groups claim devices."""

RULES = (PolicyRule("allowedResources", (RESOURCE,), allowed_resources, reads=_NAMES),)
