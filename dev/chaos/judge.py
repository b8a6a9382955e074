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

    - `events`: the audit log
    - `stuck_namespace`: namespace of the JobSet that cannot continue
    - `domains`: domain of exclusive placement of each node
    - `remaining_uids`: UIDs of the JobSets that exist at the end
    - `not_ready`: replicas that are not ready a minute after the last fault
    - `snapshots`: the placed pods of exclusive Jobs, once a second
    - `memory`, `logs`: memory samples and log lines of each life of a replica, by its name
    - `stops`: ends of lives
    - `replica_names`: names of lives by credential
    - `answers`: answers of replicas to the prober (`dev.chaos.prober`)
    - `answer_windows`: times in which each replica has to answer
    - `excused_windows`: times in which no replica could answer reviews
    - `calm_windows`: times in which no fault acted, except strangers (hostile clients and the neighbour)
    - `undisturbed_windows`: times in which no fault acted that makes reviews wait for the API server
    - `windows_alone`: times before the neighbour (`dev.chaos.neighbour`) came
    """

    events: Sequence[Event]
    stuck_namespace: str
    domains: Mapping[str, str]
    remaining_uids: set[str] = field(default_factory=set)
    not_ready: list[str] = field(default_factory=list)
    snapshots: list[placement.Snapshot] = field(default_factory=list)
    memory: dict[str, list[costs.Sample]] = field(default_factory=dict)
    excused_windows: list[admission.Window] = field(default_factory=list)
    calm_windows: list[admission.Window] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    replica_names: dict[str, str] = field(default_factory=dict)
    answers: list[strangers.Answer] = field(default_factory=list)
    answer_windows: dict[str, list[admission.Window]] = field(default_factory=dict)
    undisturbed_windows: list[admission.Window] = field(default_factory=list)
    windows_alone: list[admission.Window] = field(default_factory=list)
    logs: dict[str, Iterable[bytes]] = field(default_factory=dict)


def judge(record: Record) -> JSON:
    """The figures and all violations of a run."""
    events = record.events
    lease_result = leaders.check(events)
    rate, request_violations = costs.check_requests(events, record.stuck_namespace)
    memory, memory_violations = costs.check_memory(record.memory)
    failed_admissions = admission.admission_failures(events)
    max_p99 = strangers.allowed_seconds(record.answers, record.answer_windows, record.windows_alone)
    admissions, admission_p99, admission_violations = calm.check_times(events, record.calm_windows, max_p99)
    probes, liveness_violations = strangers.check_liveness(record.answers, record.answer_windows)
    small_reviews, review_violations = strangers.check_reviews(
        record.answers, record.answer_windows, record.undisturbed_windows, max_p99
    )
    logs = {name: strangers.check_log(name, lines) for name, lines in record.logs.items()}
    violations = [
        *lease_result.violations,
        *outcomes.check(events, record.remaining_uids),
        *admission.check(events, record.excused_windows),
        *placement.check(record.snapshots, record.domains),
        *calm.check_stops(record.stops, record.calm_windows),
        *calm.check_lease(events, record.calm_windows),
        *admission_violations,
        *request_violations,
        *memory_violations,
        *liveness_violations,
        *review_violations,
        *(violation for _, log_violations in logs.values() for violation in log_violations),
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
        "terms_of_lease": lease_result.term_count,
        "late_writes": lease_result.late_writes,
        "admissions_failed_while_excused": len(failed_admissions)
        - sum(violation.rule == admission.RULE for violation in violations),
        "calm_seconds": round(sum(end - begin for begin, end in record.calm_windows), 1),
        "calm_admissions": admissions,
        "calm_admission_p99_seconds": admission_p99,
        "stuck_requests_per_second": rate,
        "memory_mib": memory,
        "liveness_probes": probes,
        "undisturbed_seconds": round(sum(end - begin for begin, end in record.undisturbed_windows), 1),
        "allowed_p99_seconds": round(max_p99, 3),
        "small_reviews": small_reviews,
        "log_lines_per_second": {name: max_rate for name, (max_rate, _) in logs.items()},
        "looks_at_pods": len(record.snapshots),
        "violations": [_name_replicas(asdict(violation), record.replica_names) for violation in violations],
    }


def _name_replicas(violation: JSON, names: Mapping[str, str]) -> JSON:
    """The violation, with the names of replicas in place of their credentials."""
    for credential, name in names.items():
        violation["text"] = violation["text"].replace(credential, name)
    return violation
