"""Applies all checks to the records of a run: audit log, remaining JobSets, lists of pods, memory. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from dev.chaos.checks import admission, calm, costs, leaders, outcomes, placement, strangers
from dev.chaos.checks.calm import Stop
from dev.chaos.checks.violation import Violation
from dev.chaos.events import MANAGER, Event
from kube.model.meta import JSON

NOT_READY = "not ready"


@dataclass(slots=True)
class Record:
    """Records of a run. A life of a replica is the time between one start of its process and the next.

    - `stuck`: namespace of the JobSet that cannot continue; `domains`: exclusive domain of each node
    - `left`: UIDs of the JobSets at the end; `not_ready`: replicas that are not ready a minute after the last fault
    - `memory`, `logs`: samples and log lines of each life of a replica; `stops`: ends of replicas
    - `names`: names of replicas by credential
    - `answers`: answers to an independent prober; `expected`: times in which each replica has to answer
    - `excused`: times in which no replica could answer reviews
    - `calm`: times in which only hostile clients acted
    - `undisturbed`: times without a fault for which a review has to wait
    - `alone`: times before the neighbour came
    """

    events: Sequence[Event]
    stuck: str
    domains: Mapping[str, str]
    left: set[str] = field(default_factory=set)
    not_ready: list[str] = field(default_factory=list)
    looks: list[placement.Look] = field(default_factory=list)
    memory: dict[str, list[costs.Sample]] = field(default_factory=dict)
    excused: list[admission.Window] = field(default_factory=list)
    calm: list[admission.Window] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    answers: list[strangers.Answer] = field(default_factory=list)
    expected: dict[str, list[admission.Window]] = field(default_factory=dict)
    undisturbed: list[admission.Window] = field(default_factory=list)
    alone: list[admission.Window] = field(default_factory=list)
    logs: dict[str, Iterable[bytes]] = field(default_factory=dict)


def judge(record: Record) -> JSON:
    """The figures and all violations of a run."""
    events = record.events
    lease_result = leaders.check(events)
    rate, request_violations = costs.check_requests(events, record.stuck)
    memory, memory_violations = costs.check_memory(record.memory)
    failed_admissions = admission.admission_failures(events)
    allowed = strangers.allowed_seconds(record.answers, record.expected, record.alone)
    admissions, slowest, admission_violations = calm.check_times(events, record.calm, allowed)
    probes, liveness_violations = strangers.check_liveness(record.answers, record.expected)
    small_reviews, review_violations = strangers.check_reviews(
        record.answers, record.expected, record.undisturbed, allowed
    )
    logs = {name: strangers.check_log(name, lines) for name, lines in record.logs.items()}
    violations = [
        *lease_result.violations,
        *outcomes.check(events, record.left),
        *admission.check(events, record.excused),
        *placement.check(record.looks, record.domains),
        *calm.check_stops(record.stops, record.calm),
        *calm.check_lease(events, record.calm),
        *admission_violations,
        *request_violations,
        *memory_violations,
        *liveness_violations,
        *review_violations,
        *(violation for _, found in logs.values() for violation in found),
        *(Violation(NOT_READY, name, "it is not ready a minute after the last fault") for name in record.not_ready),
    ]
    sets = outcomes.lives(events).values()
    return {
        "sets": len(sets),
        "sets_ended": sum(bool(life.status.get("terminalState")) for life in sets),
        "restarts": sum(life.status.get("restarts", 0) for life in sets),
        "jobs_created": sum(
            event.resource == "jobs" and event.verb == "create" and event.is_stored and event.user == MANAGER
            for event in events
        ),
        "requests_of_manager": sum(event.user == MANAGER for event in events),
        "terms_of_lease": lease_result.terms,
        "late_writes": lease_result.late,
        "admissions_failed_while_excused": len(failed_admissions)
        - sum(one.rule == admission.RULE for one in violations),
        "calm_seconds": round(sum(end - begin for begin, end in record.calm), 1),
        "calm_admissions": admissions,
        "calm_admission_p99_seconds": slowest,
        "stuck_requests_per_second": rate,
        "memory_mib": memory,
        "liveness_probes": probes,
        "undisturbed_seconds": round(sum(end - begin for begin, end in record.undisturbed), 1),
        "allowed_p99_seconds": round(allowed, 3),
        "small_reviews": small_reviews,
        "log_lines_per_second": {name: most for name, (most, _) in logs.items()},
        "looks_at_pods": len(record.looks),
        "violations": [_name_replicas(asdict(violation), record.names) for violation in violations],
    }


def _name_replicas(violation: JSON, names: Mapping[str, str]) -> JSON:
    """The violation, with the names of replicas in place of their credentials."""
    for credential, name in names.items():
        violation["text"] = violation["text"].replace(credential, name)
    return violation
