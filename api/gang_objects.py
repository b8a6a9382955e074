"""Builds the bodies of a JobSet's Workload, CompositePodGroups and PodGroups, and compares them with stored objects.

`api.gangs` says which of these objects a JobSet needs (its `Forest`, which has a `Group` for each CompositePodGroup and
PodGroup). The Workload has a template for them. The fields are those of Kubernetes 1.37. Pure.
"""

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

DROPPABLE_FIELDS = ("parentCompositePodGroupName", "schedulingConstraints", "resourceClaims", "schedulingPolicy")
"""Fields of a group or template that an API server drops if the feature gate of the field is off."""

TEMPLATE_LISTS = ("podGroupTemplates", "compositePodGroupTemplates")
"""Fields of a Workload that are lists of templates. Templates of CompositePodGroups have the same fields."""

NEVER_DEFAULTED_FIELDS = ("schedulingConstraints", "resourceClaims", *TEMPLATE_LISTS)
"""Fields that an API server never sets to a default."""


def build_workload(js: JobSet, forest: Forest) -> JSON:
    """The body of the Workload, with the templates of all groups."""
    return {
        "apiVersion": BETA,
        "kind": WORKLOAD,
        "metadata": _metadata(js, forest.workload),
        "spec": {
            "controllerRef": {"apiGroup": keys.GROUP, "kind": keys.KIND, "name": js.metadata.name},
            **_templates(forest.roots, forest),
        },
    }


def build_group(js: JobSet, forest: Forest, group: Group, parent: str, gang_size: int | None) -> JSON:
    """The body of a CompositePodGroup or PodGroup.

    `parent`: name of the CompositePodGroup above the group; empty if there is none. `gang_size`: how many members are
    placed at once, which may be fewer than `group.gang_size` when some members have completed; None: no gang.
    """
    parent_field: JSON = {"parentCompositePodGroupName": parent} if parent else {}
    return {
        "apiVersion": ALPHA if group.is_composite else BETA,
        "kind": group.kind,
        "metadata": _metadata(js, group.name, group),
        "spec": {
            **parent_field,
            "workloadRef": {"workloadName": forest.workload, "templateName": group.template},
            **_fields(group, forest, gang_size),
        },
    }


def is_same(stored: StoredGroup, group: Group, parent: str) -> bool:
    """Whether a stored group equals the wanted group. The gang size and the priority are not compared.

    A missing disruption mode is not a difference, since an API server drops fields that it does not know.
    """
    spec = stored.spec
    topology = spec.scheduling_constraints.topology if spec.scheduling_constraints else ()
    mode = spec.disruption_mode
    return (
        (spec.parent_composite_pod_group_name or "") == parent
        and spec.workload_ref is not None
        and spec.workload_ref.template_name == group.template
        and (spec.scheduling_policy.gang is None) == (group.gang_size is None)
        and "".join(constraint.key for constraint in topology) == group.topology_key
        and (not group.disruption_mode or mode is None or getattr(mode, group.disruption_mode) is not None)
        and {*spec.resource_claims} == {*group.resource_claims}
    )


def contains(stored: object, sent: object) -> bool:
    """Whether a stored JSON value has everything that a request sends.

    Other stored fields are ignored, since they may be defaults of the API server. A stored field of
    `NEVER_DEFAULTED_FIELDS` that is not sent is a difference, since an earlier request must have sent it.
    """
    if isinstance(sent, dict):
        return (
            isinstance(stored, dict)
            and all(contains(stored.get(name), value) for name, value in sent.items())
            and not any(stored.get(name) for name in NEVER_DEFAULTED_FIELDS if name not in sent)
        )
    if isinstance(sent, list):
        return isinstance(stored, list) and len(stored) == len(sent) and all(map(contains, stored, sent))
    return stored == sent


def dropped_fields(body: JSON, stored: Mapping[str, object]) -> list[str]:
    """The names of the fields of `body` that the API server has dropped silently because a feature gate is off."""
    return [*dict.fromkeys(_dropped_fields(body["spec"], stored.get("spec")))]


def _dropped_fields(sent: JSON, stored: object) -> Iterator[str]:
    """The names of the fields that were sent but not stored, in this object and in the templates below it."""
    stored_fields = stored if isinstance(stored, Mapping) else {}
    yield from (name for name in (*DROPPABLE_FIELDS, *TEMPLATE_LISTS) if sent.get(name) and not stored_fields.get(name))
    for name in TEMPLATE_LISTS:
        stored_templates = {template["name"]: template for template in stored_fields.get(name) or ()}
        for template in sent.get(name, ()):
            yield from _dropped_fields(template, stored_templates.get(template["name"]))


def _templates(groups: tuple[Group, ...], forest: Forest) -> JSON:
    """The fields with the templates of these groups. A template that several groups share is listed once."""
    lists: dict[str, dict[str, JSON]] = {"podGroupTemplates": {}, "compositePodGroupTemplates": {}}
    for group in groups:
        templates = lists["compositePodGroupTemplates" if group.is_composite else "podGroupTemplates"]
        if group.template not in templates:
            fields = {**_fields(group, forest, group.gang_size), **_templates(group.children, forest)}
            templates[group.template] = {"name": group.template, **fields}
    return {name: list(by_name.values()) for name, by_name in lists.items() if by_name}


def _fields(group: Group, forest: Forest, gang_size: int | None) -> JSON:
    """The fields that a template and its groups have in common."""
    count_field = "minGroupCount" if group.is_composite else "minCount"
    fields: JSON = {"schedulingPolicy": {"basic": {}} if gang_size is None else {"gang": {count_field: gang_size}}}
    if group.topology_key:
        fields["schedulingConstraints"] = {"topology": [{"key": group.topology_key}]}
    if group.disruption_mode:
        fields["disruptionMode"] = {group.disruption_mode: {}}
    if forest.priority_class:
        fields["priorityClassName"] = forest.priority_class
    if group.resource_claims:
        fields["resourceClaims"] = [_claim(claim) for claim in group.resource_claims]
    return fields


def _claim(claim: GroupResourceClaim) -> JSON:
    source = "resourceClaimName" if claim.resource_claim_name else "resourceClaimTemplateName"
    return {"name": claim.name, source: claim.resource_claim_name or claim.resource_claim_template_name}


def _metadata(js: JobSet, name: str, group: Group | None = None) -> JSON:
    labels = {keys.JOBSET_NAME: js.metadata.name, keys.JOBSET_UID: js.metadata.uid}
    if group is not None and len(group.replicated_jobs) == 1:
        labels[keys.REPLICATED_JOB_NAME] = group.replicated_jobs[0]
    return {
        "name": name,
        "namespace": js.metadata.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(js)],
    }
