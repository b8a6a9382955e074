"""Builds and compares the Workload, CompositePodGroups and PodGroups of a JobSet (Kubernetes 1.37). Pure."""

from collections.abc import Iterator, Mapping

from api import keys
from api.children import owner_reference
from api.gang_status import StoredGroup
from api.gangs import WORKLOAD, Forest, Group
from api.jobset import JobSet
from api.scheduling import GroupResourceClaim
from kube.model.meta import JSON

BETA = "scheduling.k8s.io/v1beta1"
ALPHA = "scheduling.k8s.io/v1alpha3"

RULES = ("parentCompositePodGroupName", "schedulingConstraints", "resourceClaims", "schedulingPolicy")
"""Fields of a group or template that an API server may drop."""

TEMPLATES = ("podGroupTemplates", "compositePodGroupTemplates")
"""Lists of templates in a Workload or a template. Each template may have the fields of `RULES` and these lists."""

NEVER_ADDED = ("schedulingConstraints", "resourceClaims", *TEMPLATES)
"""Fields that no API server sets by itself."""


def build_workload(js: JobSet, forest: Forest) -> JSON:
    """The Workload, with the templates of all groups. All Jobs of a ReplicatedJob share one template."""
    return {
        "apiVersion": BETA,
        "kind": WORKLOAD,
        "metadata": _meta(js, forest.workload),
        "spec": {
            "controllerRef": {"apiGroup": keys.GROUP, "kind": keys.KIND, "name": js.metadata.name},
            **_templates(forest.roots, forest),
        },
    }


def build_group(js: JobSet, forest: Forest, group: Group, parent: str, gang: int | None) -> JSON:
    """The body of a CompositePodGroup or PodGroup. `parent`: name of the composite above it, empty for a root.

    `gang`: how many members are placed together now, which may be fewer than at first.
    """
    parent_field: JSON = {"parentCompositePodGroupName": parent} if parent else {}
    return {
        "apiVersion": ALPHA if group.composite else BETA,
        "kind": group.kind,
        "metadata": _meta(js, group.name, group),
        "spec": {
            **parent_field,
            "workloadRef": {"workloadName": forest.workload, "templateName": group.template},
            **_rules(group, forest, gang),
        },
    }


def is_same(stored: StoredGroup, group: Group, parent: str) -> bool:
    """Whether a stored group equals the wanted group, except for its count and its priority.

    A missing disruption mode is not a difference, since an API server drops fields that it does not know.
    """
    spec = stored.spec
    topology = spec.scheduling_constraints.topology if spec.scheduling_constraints else ()
    mode = spec.disruption_mode
    return (
        (spec.parent_composite_pod_group_name or "") == parent
        and spec.workload_ref is not None
        and spec.workload_ref.template_name == group.template
        and (spec.scheduling_policy.gang is None) == (group.gang is None)
        and "".join(constraint.key for constraint in topology) == group.topology
        and (not group.mode or mode is None or getattr(mode, group.mode) is not None)
        and {*spec.resource_claims} == {*group.claims}
    )


def contains(stored: object, sent: object) -> bool:
    """Whether a stored value has everything that is sent. Further fields may be defaults of the API server.

    A field of `NEVER_ADDED` that is stored and not sent is a difference: an earlier request has sent it.
    """
    if isinstance(sent, dict):
        return (
            isinstance(stored, dict)
            and all(contains(stored.get(name), value) for name, value in sent.items())
            and not any(stored.get(name) for name in NEVER_ADDED if name not in sent)
        )
    if isinstance(sent, list):
        return isinstance(stored, list) and len(stored) == len(sent) and all(map(contains, stored, sent))
    return stored == sent


def dropped_fields(body: JSON, stored: Mapping[str, object]) -> list[str]:
    """The fields of a body that the API server has dropped, which it does silently while a feature gate is off."""
    return [*dict.fromkeys(_dropped_template_fields(body["spec"], stored.get("spec")))]


def _dropped_template_fields(sent: JSON, stored: object) -> Iterator[str]:
    """The fields that are missing from one level of templates and from the levels below it."""
    stored_fields = stored if isinstance(stored, Mapping) else {}
    yield from (name for name in (*RULES, *TEMPLATES) if sent.get(name) and not stored_fields.get(name))
    for name in TEMPLATES:
        by_name = {entry["name"]: entry for entry in stored_fields.get(name) or ()}
        for template in sent.get(name, ()):
            yield from _dropped_template_fields(template, by_name.get(template["name"]))


def _templates(groups: tuple[Group, ...], forest: Forest) -> JSON:
    """The lists of templates of one level, each template once."""
    lists: dict[str, dict[str, JSON]] = {"podGroupTemplates": {}, "compositePodGroupTemplates": {}}
    for group in groups:
        templates = lists["compositePodGroupTemplates" if group.composite else "podGroupTemplates"]
        if group.template not in templates:
            templates[group.template] = _template(group, forest)
    return {name: list(by_name.values()) for name, by_name in lists.items() if by_name}


def _template(group: Group, forest: Forest) -> JSON:
    return {"name": group.template, **_rules(group, forest, group.gang), **_templates(group.children, forest)}


def _rules(group: Group, forest: Forest, gang: int | None) -> JSON:
    """The fields that a template and its groups have in common."""
    count = "minGroupCount" if group.composite else "minCount"
    rules: JSON = {"schedulingPolicy": {"basic": {}} if gang is None else {"gang": {count: gang}}}
    if group.topology:
        rules["schedulingConstraints"] = {"topology": [{"key": group.topology}]}
    if group.mode:
        rules["disruptionMode"] = {group.mode: {}}
    if forest.priority_class:
        rules["priorityClassName"] = forest.priority_class
    if group.claims:
        rules["resourceClaims"] = [_claim(claim) for claim in group.claims]
    return rules


def _claim(claim: GroupResourceClaim) -> JSON:
    """An entry of resourceClaims."""
    source = "resourceClaimName" if claim.resource_claim_name else "resourceClaimTemplateName"
    return {"name": claim.name, source: claim.resource_claim_name or claim.resource_claim_template_name}


def _meta(js: JobSet, name: str, group: Group | None = None) -> JSON:
    labels = {keys.JOBSET_NAME: js.metadata.name, keys.JOBSET_UID: js.metadata.uid}
    if group is not None and len(group.replicated_jobs) == 1:
        labels[keys.REPLICATED_JOB_NAME] = group.replicated_jobs[0]
    return {
        "name": name,
        "namespace": js.metadata.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(js)],
    }
