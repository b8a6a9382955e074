"""Existing volume claims: whether a new JobSet may use them. Pure.

See docs/reference/validation.md#volume-claims.

The API server has added defaults and a volume to a retained claim, so only fields that the template sets are compared,
and quantities by their amount. A claim that is being deleted is no conflict, since the controller creates a new claim
after the deletion.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from api import keys
from api.jobset import JobSet, VolumeClaimPolicy
from api.names import volume_claim_name
from api.paths import claim_templates
from kube.model.field import ErrorType, FieldError, Layer, Path, Rule, render_value
from kube.model.meta import JSON, Base, ObjectMeta
from kube.model.semantic import semantically_equal
from kube.model.validation import dns1123_subdomain
from webhooks.jobset.cluster.verdict import warning

MISMATCH = Rule(
    id="claim-differs",
    type=ErrorType.INVALID,
    message="spec does not match existing PVC {claim} in namespace {namespace}",
    fix="{differences}: write the same, use another template name, or delete the claim if its data may go",
    source="docs/reference/validation.md#volume-claims, defect 4",
    layer=Layer.CLUSTER,
)
NOT_RETAINED = Rule(
    id="claim-not-retained",
    type=ErrorType.INVALID,
    message="retentionPolicy must be retain when PVC exists",
    fix='set it to Retain, or delete the claim "{claim}" if its data may go',
    source="docs/reference/validation.md#volume-claims",
    layer=Layer.CLUSTER,
)
UNCHECKED = Rule(
    id="claim-unchecked",
    type=ErrorType.INTERNAL,
    message="failed to check for existing PVC {claim}: {why}",
    fix="grant the right to get persistentvolumeclaims, then apply the JobSet again",
    source="docs/reference/validation.md#volume-claims",
    layer=Layer.CLUSTER,
)
TERMINATING = warning(
    "claim-leaving",
    "PVC {claim} is being deleted",
    "a new, empty one is created once it is gone",
    source="docs/reference/validation.md#volume-claims, defect 4",
)
_MAX_DIFFERENCES = 3


class LiveClaim(Base, frozen=True, kw_only=True):
    """The compared fields of a PersistentVolumeClaim."""

    metadata: ObjectMeta
    spec: JSON = {}


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that a JobSet will use, and the path of its template."""

    path: Path
    retention_path: Path
    policy: VolumeClaimPolicy
    template: JSON
    name: str

    @property
    def spec(self) -> JSON:
        return self.template.get("spec") or {}


def claims_of(js: JobSet) -> list[Claim]:
    """The claims that a JobSet will use, each once, without invalid names, which another rule refuses."""
    claims: dict[str, Claim] = {}
    for path, template, policy_path, policy in claim_templates(js):
        template_name = (template.get("metadata") or {}).get("name") or ""
        name = volume_claim_name(template_name, js.metadata.name)
        if template_name and not dns1123_subdomain(name):
            claims.setdefault(
                name, Claim(path, policy_path.at("retentionPolicy", "whenDeleted"), policy, template, name)
            )
    return list(claims.values())


def claim_faults(js: JobSet, claim: Claim, live: LiveClaim, *, has_author_rights: bool) -> Iterator[FieldError]:
    """Why a new JobSet cannot use the existing claim `live`.

    `has_author_rights`: the claim was read with the rights of the JobSet's author, so the fault may quote it.
    """
    owner = live.metadata.controller()
    is_of_earlier_set = owner is not None and owner.kind == keys.KIND and owner.name == js.metadata.name
    if is_of_earlier_set or live.metadata.deletion_timestamp is not None:
        yield TERMINATING.at(claim.path, claim=claim.name)
        return
    difference_texts = [
        f"{field} is {_value_text(live_value) if has_author_rights else 'different'} there"
        for field, live_value in differences(claim.spec, live.spec)
    ]
    if difference_texts:
        yield MISMATCH.at(
            claim.path.at("spec"),
            claim.spec,
            claim=claim.name,
            namespace=js.metadata.namespace,
            differences=", ".join(difference_texts[:_MAX_DIFFERENCES]),
        )
    retention = claim.policy.retention_policy
    when_deleted = "Delete" if retention is None else retention.when_deleted
    if when_deleted != "Retain":
        yield NOT_RETAINED.at(claim.retention_path, when_deleted, claim=claim.name)


def differences(template: JSON, live: JSON, member: str = "") -> Iterator[tuple[str, Any]]:
    """The paths at which `live` differs from the fields that `template` sets, with the live value.

    A null, an empty list and an empty map set nothing. `member` is the name of the field that contains both objects. It
    decides whether their values are amounts or plain texts.
    """
    for key, value in template.items():
        live_value = live.get(key)
        if (
            value is None
            or value in ({}, [])
            or semantically_equal({member: {key: value}}, {member: {key: live_value}})
        ):
            continue
        if isinstance(value, dict) and isinstance(live_value, dict):
            yield from ((f"{key}.{field}", inner_live) for field, inner_live in differences(value, live_value, key))
        else:
            yield key, live_value


def _value_text(value: Any) -> str:
    return "not set" if value is None else render_value(value)
