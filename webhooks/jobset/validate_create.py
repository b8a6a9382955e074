"""Every check of a new JobSet that needs nothing but the JobSet, in the order of behaviour section 3.2. Pure."""

from api.features import FeatureGates
from api.field import FieldError
from api.meta import JSON
from webhooks.jobset.rules import EntryRule, Rule, coordinator, depends_on, in_place, managed_by, names, policies
from webhooks.jobset.rules import volume_claims as claims
from webhooks.jobset.subject import Subject, Unreadable, subject

BEFORE: tuple[Rule, ...] = (
    in_place.gate,
    depends_on.not_on_the_first,
    names.subdomain,
    managed_by.domain_prefixed_path,
)
PER_REPLICATED_JOB: tuple[EntryRule, ...] = (
    names.pod_count,
    names.group_name,
    names.job_names,
    names.pod_names,
    depends_on.known_and_earlier,
    in_place.job_template,
)
AFTER: tuple[Rule, ...] = (
    policies.success_targets,
    policies.failure_rules,
    coordinator.coordinator,
    claims.volume_claims,
)


def create_errors(obj: JSON, gates: FeatureGates) -> list[FieldError]:
    """All faults of a new JobSet, in discovery order; empty when it may be stored."""
    try:
        js = subject(obj, gates)
    except Unreadable as unreadable:
        return [unreadable.error]
    return [*_each(js, BEFORE), *_each_entry(js), *_each(js, AFTER)]


def _each(js: Subject, rules: tuple[Rule, ...]) -> list[FieldError]:
    return [error for rule in rules for error in rule(js)]


def _each_entry(js: Subject) -> list[FieldError]:
    return [error for entry in js.entries for rule in PER_REPLICATED_JOB for error in rule(js, entry)]
