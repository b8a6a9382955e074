"""The checks of a new JobSet that need no cluster, in their order. Pure.

See docs/reference/validation.md#new-jobsets.
"""

from collections.abc import Iterator, Sequence

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

SCHEDULING_CHECKS: tuple[SubjectCheck, ...] = (
    scheduling.check_gates,
    scheduling.check_unions,
    scheduling.check_names,
    scheduling.check_combinations,
    scheduling_groups.check_job_count,
    scheduling_groups.check_targets,
    scheduling_groups.check_minimum_counts,
    scheduling_groups.check_stages,
    scheduling_groups.check_template_counts,
    scheduling_pods.check_templates,
    scheduling_pods.check_exclusive_placement,
    scheduling_pods.check_equal_fields,
    scheduling_pods.check_kueue_topology,
    spares.check_scheduling_groups,
)
"""Checks of a set with spec.scheduling, which are repeated on every update of it."""
FIRST_CHECKS: tuple[SubjectCheck, ...] = (
    depends_on.check_startup_policy,
    execution.check_single_order,
    execution.check_state,
    success.check_operator,
    claims.check_namespaces,
    in_place.check_gate,
    restart_agent.check_strategy,
    gated_fields.check_gates,
    elastic.check_gate,
    spares.check_gate,
    suspension.check_suspend,
    execution.check_restart_strategy,
    depends_on.check_first,
    names.check_subdomain,
    size.check_counts,
    size.check_stored_size,
    managed_by.check_manager_name,
    managed_by.check_copied_fields,
)
REPLICATED_JOB_CHECKS: tuple[EntryCheck, ...] = (
    names.check_pod_count,
    names.check_group_name,
    names.check_name,
    names.check_job_names,
    names.check_pod_names,
    managed_by.check_jobs,
    depends_on.check_targets,
    in_place.check_job_template,
    restart_agent.check_pods,
    restart_agent.check_rights,
    restart_agent.check_watchdog,
    dns.check_pods,
    exit_codes.check_exit_code_policy,
    placement.check_replicated_job,
)
LAST_CHECKS: tuple[SubjectCheck, ...] = (
    success.check_targets,
    success.check_min_succeeded,
    elastic.check_bounds,
    elastic.check_min_succeeded,
    elastic.check_no_capacity,
    spares.check_groups,
    spares.check_references,
    failure.check_failure_rules,
    escalation.check_steps,
    escalation.check_in_place_limit,
    exit_codes.check_failure_rules,
    avoid_nodes.check_avoid_nodes,
    coordinator.check_coordinator,
    claims.check_volume_claims,
    placement.check_jobset,
    own_keys.check_unknown_keys,
    own_keys.check_queue_label,
    suspension.check_annotations,
    containers.check_containers,
    own_numbers.check_numbers,
    own_numbers.check_endless_containers,
    success.check_reachability,
    failure_reach.check_reachability,
    grace_periods.check_grace_periods,
    depends_on.check_reachability,
    execution.check_effect,
    execution.check_reachability,
    dns.check_dns_off,
    scheduling_pods.check_pod_set_count,
    scheduling_pods.check_kai_stages,
    scheduling_pods.check_ignored_field,
)
TEXT_CHECKS: tuple[SubjectCheck, ...] = (
    variables.check_variables,
    addresses.check_addresses,
    ranks.check_ranks,
)
"""Checks that read the texts of containers. Each check costs a step for each character."""


def findings_about_new(subject: Subject, work: Work) -> Iterator[FieldError]:
    """The findings about a new JobSet, in discovery order."""
    yield from _findings(FIRST_CHECKS, subject, work)
    for entry in subject.entries:
        work.spend(entry.steps_per_check * len(REPLICATED_JOB_CHECKS))
        for each in REPLICATED_JOB_CHECKS:
            yield from each(subject, entry)
    yield from _findings(LAST_CHECKS, subject, work)
    yield from scheduling_findings(subject, work)
    text_size = sum(len(entry.all_text) for entry in subject.entries)
    work.spend(text_size * len(TEXT_CHECKS))
    yield from _findings(TEXT_CHECKS, subject, work)


def scheduling_findings(subject: Subject, work: Work | None = None) -> Iterator[FieldError]:
    """Findings about spec.scheduling and what it excludes. There are none without it."""
    return iter(()) if subject.js.spec.scheduling is None else _findings(SCHEDULING_CHECKS, subject, work or Work())


def _findings(checks: Sequence[SubjectCheck], subject: Subject, work: Work) -> Iterator[FieldError]:
    for check in checks:
        work.spend(subject.steps_per_check)
        yield from check(subject)
