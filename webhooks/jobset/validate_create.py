"""Every check of a new JobSet that needs nothing but the JobSet, in the order of the rules. Pure.

See docs/reference/validation.md#new-jobsets.
"""

from collections.abc import Iterator

from kube.model.field import FieldError
from webhooks.jobset.rules import (
    EntryCheck,
    SubjectCheck,
    addresses,
    avoid_nodes,
    containers,
    coordinator,
    depends_on,
    dns,
    elastic,
    escalation,
    execution,
    exit_codes,
    failure,
    failure_reach,
    gated_fields,
    grace_periods,
    in_place,
    managed_by,
    names,
    own_keys,
    own_numbers,
    placement,
    ranks,
    restart_agent,
    scheduling,
    scheduling_groups,
    scheduling_pods,
    size,
    spares,
    success,
    suspension,
    variables,
)
from webhooks.jobset.rules import volume_claims as claims
from webhooks.jobset.subject import Subject
from webhooks.work import Work

SCHEDULING: tuple[SubjectCheck, ...] = (
    scheduling.gates,
    scheduling.unions,
    scheduling.words,
    scheduling.together,
    scheduling_groups.few_enough,
    scheduling_groups.targets,
    scheduling_groups.counts_fit,
    scheduling_groups.stages_apart,
    scheduling_groups.fits_a_workload,
    scheduling_pods.templates,
    scheduling_pods.exclusive,
    scheduling_pods.alike,
    scheduling_pods.kueue,
    spares.groups_of_pods,
)
"""Groups: checked again on every update that could change them."""
BEFORE: tuple[SubjectCheck, ...] = (
    depends_on.dependency_order,
    execution.one_order,
    execution.state,
    success.not_any,
    claims.namespaces,
    in_place.gate,
    restart_agent.strategy,
    gated_fields.without_gate,
    elastic.gate,
    spares.gate,
    suspension.left_to_others,
    execution.not_in_place,
    depends_on.not_on_the_first,
    names.subdomain,
    size.size,
    size.room_in_etcd,
    managed_by.domain_prefixed_path,
    managed_by.travelling_fields,
)
PER_REPLICATED_JOB: tuple[EntryCheck, ...] = (
    names.pod_count,
    names.group_name,
    names.has_a_name,
    names.job_names,
    names.pod_names,
    managed_by.jobs,
    depends_on.known_and_earlier,
    in_place.job_template,
    restart_agent.pods,
    restart_agent.rights,
    restart_agent.watchdog,
    dns.pod_names,
    exit_codes.exit_code_policy,
    placement.exclusive,
)
AFTER: tuple[SubjectCheck, ...] = (
    success.targets,
    success.min_succeeded,
    elastic.bounds,
    elastic.enough,
    elastic.no_capacity,
    spares.groups,
    spares.references,
    failure.failure_rules,
    escalation.steps,
    escalation.in_place_limit,
    exit_codes.failure_rules,
    avoid_nodes.avoid_nodes,
    coordinator.coordinator,
    claims.volume_claims,
    placement.levels,
    own_keys.unknown_keys,
    own_keys.misplaced_queue,
    suspension.have_effect,
    containers.runnable,
    own_numbers.can_hold,
    own_numbers.never_end,
    success.can_come,
    failure_reach.rules_can_match,
    grace_periods.consecutive_grace_periods,
    depends_on.can_start,
    execution.effect,
    execution.can_start,
    dns.resolves,
    scheduling_pods.few_pod_sets,
    scheduling_pods.kai_stages,
    *SCHEDULING,
)
TEXTS: tuple[SubjectCheck, ...] = (
    variables.are_replaced,
    addresses.have_pods,
    ranks.ranks_fit,
)
"""Those that read the texts of containers: each costs a step for each character."""


def create_findings(js: Subject, work: Work) -> Iterator[FieldError]:
    """All faults of a new JobSet and all warnings about it, in discovery order."""
    for check in BEFORE:
        work.spend(js.steps)
        yield from check(js)
    for entry in js.entries:
        work.spend(entry.steps * len(PER_REPLICATED_JOB))
        for each in PER_REPLICATED_JOB:
            yield from each(js, entry)
    for check in AFTER:
        work.spend(js.steps)
        yield from check(js)
    size = sum(entry.text_size for entry in js.entries)
    for check in TEXTS:
        work.spend(js.steps + size)
        yield from check(js)


def scheduling_findings(js: Subject) -> Iterator[FieldError]:
    """Findings about spec.scheduling alone."""
    for check in SCHEDULING:
        yield from check(js)
