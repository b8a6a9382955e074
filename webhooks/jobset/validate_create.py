"""The checks of a new JobSet that need no cluster, and which fields a JobSet must have for some of them. Pure.

See docs/reference/validation.md#new-jobsets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from api.keys import DELETE_ON_SUSPEND, MULTIKUEUE_ORIGIN, QUEUE_NAME, SKIP_SUSPEND
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
CHECKS_OF_SETS: tuple[SubjectCheck, ...] = (
    gated_fields.check_gates,
    size.check_counts,
    size.check_stored_size,
    success.check_targets,
    placement.check_jobset,
    own_keys.check_unknown_keys,
    own_keys.check_queue_label,
    containers.check_containers,
    own_numbers.check_numbers,
    own_numbers.check_endless_containers,
    success.check_reachability,
    scheduling_pods.check_kai_stages,
    scheduling_pods.check_ignored_field,
)
CHECKS_OF_REPLICATED_JOBS: tuple[EntryCheck, ...] = (
    names.check_pod_count,
    names.check_group_name,
    names.check_name,
    names.check_job_names,
    names.check_pod_names,
    managed_by.check_jobs,
    restart_agent.check_watchdog,
    dns.check_pods,
    placement.check_replicated_job,
)


@dataclass(frozen=True, slots=True)
class OptionalChecks:
    """Checks that find nothing in a JobSet with none of these keys (`Subject.used_keys`)."""

    keys: tuple[str, ...]
    of_set: tuple[SubjectCheck, ...]
    of_replicated_job: tuple[EntryCheck, ...] = ()


OPTIONAL_CHECKS: tuple[OptionalChecks, ...] = (
    OptionalChecks(
        ("executionPolicy",),
        (
            execution.check_single_order,
            execution.check_state,
            execution.check_restart_strategy,
            execution.check_effect,
            execution.check_reachability,
        ),
    ),
    OptionalChecks(
        ("dependsOn",),
        (depends_on.check_startup_policy, depends_on.check_first, depends_on.check_reachability),
        (depends_on.check_targets,),
    ),
    OptionalChecks(
        ("minSucceeded", "unit"), (success.check_operator, success.check_min_succeeded, elastic.check_min_succeeded)
    ),
    OptionalChecks(
        ("restartStrategy", "agent"),
        (in_place.check_gate, restart_agent.check_strategy),
        (in_place.check_job_template, restart_agent.check_pods, restart_agent.check_rights),
    ),
    OptionalChecks(("elastic", "nodeFailure"), (elastic.check_gate, elastic.check_bounds, elastic.check_no_capacity)),
    OptionalChecks(("spareFor",), (spares.check_gate, spares.check_groups, spares.check_references)),
    OptionalChecks(
        ("failurePolicy",),
        (failure.check_failure_rules, failure_reach.check_reachability, grace_periods.check_grace_periods),
    ),
    OptionalChecks(("rules",), (escalation.check_steps, exit_codes.check_failure_rules)),
    OptionalChecks(("inPlaceRestarts",), (escalation.check_in_place_limit,)),
    OptionalChecks(("avoidNodes",), (avoid_nodes.check_avoid_nodes,)),
    OptionalChecks(("exitCodePolicy",), (), (exit_codes.check_exit_code_policy,)),
    OptionalChecks(("subdomain", "enableDNSHostnames"), (names.check_subdomain, dns.check_dns_off)),
    OptionalChecks(("coordinator",), (coordinator.check_coordinator,)),
    OptionalChecks(("volumeClaimPolicies",), (claims.check_namespaces, claims.check_volume_claims)),
    OptionalChecks(("managedBy", MULTIKUEUE_ORIGIN), (managed_by.check_manager_name, managed_by.check_copied_fields)),
    OptionalChecks((SKIP_SUSPEND, DELETE_ON_SUSPEND), (suspension.check_suspend, suspension.check_annotations)),
    OptionalChecks((QUEUE_NAME,), (scheduling_pods.check_pod_set_count,)),
)
TEXT_CHECKS: tuple[SubjectCheck, ...] = (
    variables.check_variables,
    addresses.check_addresses,
    ranks.check_ranks,
)
"""Checks that read the texts of containers. Each check costs a step for each character."""


def findings_about_new(subject: Subject, work: Work) -> Iterator[FieldError]:
    """The findings about a new JobSet, in discovery order."""
    needed = [checks for checks in OPTIONAL_CHECKS if not subject.used_keys.isdisjoint(checks.keys)]
    entry_checks = [*CHECKS_OF_REPLICATED_JOBS, *(check for checks in needed for check in checks.of_replicated_job)]
    yield from _findings(CHECKS_OF_SETS, subject, work)
    for entry in subject.entries:
        work.spend(entry.steps_per_check * len(entry_checks))
        for check in entry_checks:
            yield from check(subject, entry)
    for checks in needed:
        yield from _findings(checks.of_set, subject, work)
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
