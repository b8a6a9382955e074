"""`make bench-plan`: measures the time of one plan of the reconcile loop for growing JobSets, and how the time grows.

A plan is pure, so the measurement needs no cluster. The garbage collector is off meanwhile: the manager freezes its
heap, and a collection would add its time to the plan in which it happens to run.
"""

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import msgspec

from api.batch import Job, Service
from api.children import NO_UID, build_job, build_service
from api.features import FeatureGates
from api.gang_api import Served
from api.gang_objects import build_group, build_workload
from api.gang_status import StoredGroup, StoredWorkload
from api.gangs import COMPOSITE, MAX_JOBS, POD_GROUP, forest
from api.jobset import JobSet
from api.jobset_status import JobSetStatus
from api.layout import layout_of
from api.scheduling import Scheduling
from controllers.planning.limits import DEFAULT_LIMITS
from controllers.planning.observed import KnownGroups, Observed
from controllers.planning.plan import plan
from controllers.planning.sorted_jobs import SortedJobs
from dev.bench.output import command_line, print_result, print_table, print_text
from dev.bench.report import exponent
from kube.model.meta import JSON

NOW = "2026-01-01T00:00:00Z"
GATES = FeatureGates()
ALL_SERVED = Served(groups=True, composites=True, topology=True)
"""The answer of an API server that serves all APIs of gangs."""

SIZES = (100, 1000, 2500, 5000, 10_000, 20_000)
LARGEST_JOBSET = 100_000
"""Jobs of the largest JobSet that admission allows by default. Measured for Jobs that exist and have no groups."""

GOAL_SECONDS = 0.050
"""Processor seconds for a plan of 10,000 Jobs."""

HUGE_JOBSET = 10_000_000
"""Jobs of a JobSet that no cluster can run. Such a JobSet can be stored, so the goal also applies to its plan."""


def jobset(count: int, status: JobSetStatus = JobSetStatus()) -> JobSet:  # noqa: B008 -- frozen
    """A JobSet of `count` Jobs in four ReplicatedJobs."""
    container = {"name": "main", "image": "train"}
    template = {"spec": {"completionMode": "Indexed", "template": {"spec": {"containers": [container]}}}}
    replicated_jobs = [{"name": f"group-{n}", "replicas": count // 4, "template": template} for n in range(4)]
    spec = {
        "replicatedJobs": replicated_jobs,
        "network": {"enableDNSHostnames": True},
        "failurePolicy": {"maxRestarts": 3},
    }
    meta = {"name": "bench", "namespace": "default", "uid": NO_UID, "resourceVersion": "1"}
    return msgspec.structs.replace(msgspec.convert({"metadata": meta, "spec": spec}, JobSet), status=status)


def jobs(js: JobSet, **status: object) -> tuple[Job, ...]:
    """All Jobs of the JobSet, each with the status `status`, decoded as the watch decodes them."""
    layout = layout_of(js)
    decoded_jobs = []
    for job_range in layout.ranges:
        for position in job_range.positions(js.metadata.name):
            body = build_job(js, layout, job_range, position)
            body["metadata"]["uid"] = position.name
            decoded_jobs.append(msgspec.json.decode(msgspec.json.encode({**body, "status": status}), type=Job))
    return tuple(decoded_jobs)


def state_of(js: JobSet, child_jobs: tuple[Job, ...]) -> Observed:
    return Observed(js, child_jobs, msgspec.convert(build_service(js), Service), frozenset(), NOW, 1.0)


def with_status(state: Observed) -> Observed:
    """The state, in which the JobSet has the status that a plan gives it."""
    status = plan(state, GATES).status
    return state if status is None else replace(state, jobset=msgspec.structs.replace(state.jobset, status=status))


def idle_set(count: int) -> Observed:
    js = jobset(count)
    return with_status(state_of(js, jobs(js, active=1, ready=1, startTime=NOW)))


def to_be_created(count: int) -> Observed:
    return state_of(jobset(count), ())


def to_be_deleted(count: int) -> Observed:
    """A state just after a restart, in which all Jobs of the attempt before exist."""
    old_jobs = jobs(jobset(count), active=1, ready=1, startTime=NOW)
    return state_of(jobset(count, JobSetStatus(restarts=1, execution_attempts=1)), old_jobs)


def half_completed(count: int) -> Observed:
    """A state in which every second Job has completed, so that the text of completed indexes is longest."""
    js = jobset(count)
    completed = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
    child_jobs = tuple(
        msgspec.convert({**msgspec.to_builtins(job), "status": completed}, Job) if number % 2 else job
        for number, job in enumerate(jobs(js, active=1, ready=1))
    )
    return with_status(state_of(js, child_jobs))


def gang_of(count: int) -> JobSet:
    """A JobSet of `count` Jobs as one gang of Jobs. Each Job is a gang of pods."""
    entry = {"targetReplicatedJobs": [f"group-{n}" for n in range(4)], "job": {}}
    scheduling = msgspec.convert({"replicatedJobs": [entry], "schedulingPolicy": {"gang": {}}}, Scheduling)
    js = jobset(count)
    return msgspec.structs.replace(js, spec=msgspec.structs.replace(js.spec, scheduling=scheduling))


def groups_to_be_created(count: int) -> Observed:
    return replace(state_of(gang_of(count), ()), groups=KnownGroups(ALL_SERVED))


def groups_at_rest(count: int) -> Observed:
    """A state in which all groups exist, and all Jobs run in their groups."""
    js = gang_of(count)
    trees = forest(js)
    assert trees is not None  # noqa: S101 -- the JobSet is a gang
    bodies = [
        build_group(js, trees, group, parent, group.gang_size)
        for root in trees.roots
        for group, parent in root.with_parents()
    ]
    stored = [msgspec.convert(_with_uid(body), StoredGroup) for body in bodies]
    groups = KnownGroups(
        ALL_SERVED,
        workloads=(msgspec.convert(_with_uid(build_workload(js, trees)), StoredWorkload),),
        composites=tuple(group for group, body in zip(stored, bodies, strict=True) if body["kind"] == COMPOSITE),
        pod_groups=tuple(group for group, body in zip(stored, bodies, strict=True) if body["kind"] == POD_GROUP),
    )
    child_jobs = []
    for job in jobs(js, active=1, ready=1, startTime=NOW):
        job_body, group = msgspec.to_builtins(job), trees.of_job(job.metadata.name)
        job_body["spec"]["template"].setdefault("spec", {})["schedulingGroup"] = {
            "podGroupName": group.name if group else ""
        }
        child_jobs.append(msgspec.convert(job_body, Job))
    return with_status(replace(state_of(js, tuple(child_jobs)), groups=groups))


def _with_uid(body: JSON) -> JSON:
    return {**body, "metadata": {**body["metadata"], "uid": body["metadata"]["name"]}}


def suspended_set(count: int) -> Observed:
    js = jobset(count)
    return state_of(msgspec.structs.replace(js, spec=msgspec.structs.replace(js.spec, suspend=True)), ())


def best_time(states: Iterable[Observed], rounds: int, sorted_jobs: SortedJobs | None = None) -> float:
    """Processor seconds of the fastest of `rounds` plans, one for each state, as on an otherwise idle machine.

    With `sorted_jobs`, each plan uses the sorted Jobs that the plan before has stored. An additional first plan, which
    finds nothing stored, does not count.
    """
    times = []
    uncounted_rounds = 0 if sorted_jobs is None else 1
    for state in islice(states, rounds + uncounted_rounds):
        gc.collect()
        gc.disable()
        started = time.process_time()
        plan(state, GATES, sorted_jobs=sorted_jobs)
        times.append(time.process_time() - started)
        gc.enable()
    return min(times[uncounted_rounds:])


def one_changes(count: int) -> Iterator[Observed]:
    """Yield states in which all Jobs are ready. In each further state, one Job changes to not ready, or back."""
    state = idle_set(count)
    while True:
        yield state
        first, *unchanged = state.jobs
        status = msgspec.structs.replace(first.status, ready=0 if first.status.ready else 1)
        state = replace(state, jobs=(*unchanged, msgspec.structs.replace(first, status=status)))


def forty_are_created(count: int) -> Iterator[Observed]:
    """Yield a state in which half of the Jobs exist, then states with forty Jobs more each."""
    state = idle_set(count)
    for existing in range(count // 2, count, DEFAULT_LIMITS.queued_jobs):
        yield replace(state, jobs=state.jobs[:existing])


def repeat(make_state: Callable[[int], Observed]) -> Callable[[int], Iterator[Observed]]:
    """A function that yields the same state forever, as a new object each time, so that no plan has cached results."""

    def states(count: int) -> Iterator[Observed]:
        state = make_state(count)
        while True:
            yield replace(state)

    return states


@dataclass(frozen=True, slots=True)
class Scenario:
    """States that are planned one after the other.

    `states` makes the states for a number of Jobs; `sizes` lists these numbers. `keeps_sorted_jobs`: each plan uses
    the sorted Jobs of the plan before.
    """

    name: str
    states: Callable[[int], Iterator[Observed]]
    sizes: tuple[int, ...] = SIZES
    keeps_sorted_jobs: bool = False


WITH_GROUPS = tuple(count for count in SIZES if count <= MAX_JOBS)
SCENARIOS = (
    Scenario("all ready", repeat(idle_set), (*SIZES, LARGEST_JOBSET)),
    Scenario("all to be created", repeat(to_be_created)),
    Scenario("all to be deleted", repeat(to_be_deleted)),
    Scenario("half completed", repeat(half_completed), (*SIZES, LARGEST_JOBSET)),
    Scenario("groups, all to be created", repeat(groups_to_be_created), WITH_GROUPS),
    Scenario("groups, all ready", repeat(groups_at_rest), WITH_GROUPS),
    Scenario("one Job has changed", one_changes, (*SIZES, LARGEST_JOBSET), keeps_sorted_jobs=True),
    Scenario("forty Jobs have been created", forty_are_created, (*SIZES, LARGEST_JOBSET), keeps_sorted_jobs=True),
    Scenario("all to be created", repeat(to_be_created), (HUGE_JOBSET,)),
    Scenario("all to be created, suspended", repeat(suspended_set), (HUGE_JOBSET,)),
)


def measure(rounds: int = 15) -> list[JSON]:
    """A row for each scenario: processor seconds of the fastest of `rounds` plans, by number of Jobs.

    `slope` is the exponent with which the seconds grow with the number of Jobs; None for a scenario of a single size.
    """
    rows = []
    for scenario in SCENARIOS:
        seconds = {
            count: best_time(scenario.states(count), rounds, SortedJobs() if scenario.keeps_sorted_jobs else None)
            for count in scenario.sizes
        }
        seconds_by_count = {str(count): best_seconds for count, best_seconds in seconds.items()}
        rows.append({"scenario": scenario.name, "seconds": seconds_by_count, "slope": exponent(seconds.items())})
    return rows


def main() -> None:
    parser = command_line("dev.bench.plan", __doc__)
    parser.add_argument("--rounds", type=int, default=15, help="plans for each figure; the fastest counts (15)")
    options = parser.parse_args()
    print_result(options.output, measure(options.rounds), show)


def show(rows: list[JSON]) -> None:
    sizes = (*SIZES, LARGEST_JOBSET, HUGE_JOBSET)
    lines = []
    for row in rows:
        seconds_by_title = {f"{count:,} Jobs": row["seconds"].get(str(count)) for count in sizes}
        cells = {
            title: "" if seconds is None else f"{seconds * 1e3:.1f}" for title, seconds in seconds_by_title.items()
        }
        slope = "" if row["slope"] is None else f"{row['slope']:.2f}"
        lines.append({"scenario": row["scenario"], **cells, "slope": slope})
    print_table(lines, "P11: milliseconds for one plan")
    slow_scenarios = [
        row["scenario"] for row in rows if row["seconds"][str(10_000 if row["slope"] else HUGE_JOBSET)] > GOAL_SECONDS
    ]
    verdict = f"above it: {', '.join(slow_scenarios)}" if slow_scenarios else "all within it"
    print_text(
        f"Goal for 10,000 and for {HUGE_JOBSET:,} Jobs: {GOAL_SECONDS * 1e3:.0f} ms; {verdict}. A slope of 1 is linear."
    )


if __name__ == "__main__":
    main()
