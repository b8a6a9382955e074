"""Times one plan of the reconcile loop for growing sets, and fits how the time grows: `make bench-plan`.

A plan is pure, so this needs no cluster. The garbage collector is off while the clock runs: the manager freezes its
heap, and a collection would be counted against whichever plan it hits.
"""

import argparse
import gc
import json
import math
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice

import msgspec
from rich.console import Console
from rich.table import Table

from api.batch import Job, Service
from api.children import NO_UID, build_job, build_service
from api.features import FeatureGates
from api.gang_api import Served
from api.gang_objects import build_group, build_workload
from api.gang_status import StoredGroup, StoredWorkload
from api.gangs import COMPOSITE, MOST_JOBS, POD_GROUP, forest
from api.jobset import JobSet
from api.jobset_status import JobSetStatus
from api.layout import layout_of
from api.scheduling import Scheduling
from controllers.indexes import BY_OWNER, controller_uid, key_of_children
from controllers.jobset.watches import BY_SET, set_name
from controllers.planning.limits import DEFAULT_LIMITS
from controllers.planning.observed import KnownGroups, Observed
from controllers.planning.plan import plan
from controllers.planning.sorted_jobs import SortedJobs
from kube.model.meta import JSON
from kube.store import Store

NOW = "2026-01-01T00:00:00Z"
GATES = FeatureGates()
SERVED = Served(groups=True, composites=True, topology=True)
SIZES = (100, 1000, 2500, 5000, 10_000, 20_000)
LARGEST = 100_000
"""Jobs of the largest set that admission lets in by default; measured where the Jobs exist and have no groups."""

GOAL = 0.050
"""Processor seconds for a plan of 10,000 Jobs."""

HUGE = 10_000_000
"""Jobs of a set that no cluster can hold, and that one may have stored all the same; the goal is for its plan, too."""

FITTED = 1000
"""Jobs from which on the curve is fitted: below, what a plan costs without any Job shows."""


@dataclass(frozen=True, slots=True)
class Row:
    """Processor seconds of one plan by number of Jobs, and the exponent of the curve through them (1 = linear).

    `slope` is None where there is one size only.
    """

    scenario: str
    seconds: dict[int, float]
    slope: float | None


def jobset(count: int, status: JobSetStatus = JobSetStatus()) -> JobSet:  # noqa: B008 -- frozen
    """A set of that many Jobs in four ReplicatedJobs."""
    container = {"name": "main", "image": "train"}
    template = {"spec": {"completionMode": "Indexed", "template": {"spec": {"containers": [container]}}}}
    groups = [{"name": f"group-{n}", "replicas": count // 4, "template": template} for n in range(4)]
    spec = {"replicatedJobs": groups, "network": {"enableDNSHostnames": True}, "failurePolicy": {"maxRestarts": 3}}
    meta = {"name": "bench", "namespace": "default", "uid": NO_UID, "resourceVersion": "1"}
    return msgspec.structs.replace(msgspec.convert({"metadata": meta, "spec": spec}, JobSet), status=status)


def jobs(js: JobSet, **status: object) -> tuple[Job, ...]:
    """All Jobs of the set with that status, decoded as the watch does."""
    layout = layout_of(js)
    out = []
    for jobs in layout.ranges:
        for position in jobs.positions(js.metadata.name):
            body = build_job(js, jobs, position, global_replicas=layout.global_replicas)
            body["metadata"]["uid"] = position.name
            out.append(msgspec.json.decode(msgspec.json.encode({**body, "status": status}), type=Job))
    return tuple(out)


def observed(js: JobSet, found: tuple[Job, ...]) -> Observed:
    return Observed(js, found, msgspec.convert(build_service(js), Service), frozenset(), NOW, 1.0)


def counted(js: JobSet, found: tuple[Job, ...]) -> JobSet:
    """The set with the status that its own plan gives it."""
    status = plan(observed(js, found), GATES).status
    return js if status is None else msgspec.structs.replace(js, status=status)


def at_rest(count: int) -> Observed:
    js = jobset(count)
    found = jobs(js, active=1, ready=1, startTime=NOW)
    return observed(counted(js, found), found)


def to_be_created(count: int) -> Observed:
    return observed(jobset(count), ())


def to_be_deleted(count: int) -> Observed:
    js = jobset(count)
    found = jobs(js, active=1, ready=1, startTime=NOW)
    return observed(jobset(count, JobSetStatus(restarts=1, execution_attempts=1)), found)


def half_completed(count: int) -> Observed:
    """Every second Job is done: the longest text of indexes there can be."""
    js = jobset(count)
    done = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
    running = jobs(js, active=1, ready=1)
    found = tuple(
        msgspec.convert({**_raw(job), "status": done}, Job) if n % 2 else job for n, job in enumerate(running)
    )
    return observed(counted(js, found), found)


def _raw(job: Job) -> JSON:
    raw: JSON = msgspec.to_builtins(job)
    return raw


def grouped(count: int) -> JobSet:
    """The set as one gang of Jobs, each a gang of pods."""
    entry = {"targetReplicatedJobs": [f"group-{n}" for n in range(4)], "job": {}}
    scheduling = msgspec.convert({"replicatedJobs": [entry], "schedulingPolicy": {"gang": {}}}, Scheduling)
    js = jobset(count)
    return msgspec.structs.replace(js, spec=msgspec.structs.replace(js.spec, scheduling=scheduling))


def groups_to_be_created(count: int) -> Observed:
    return replace(observed(grouped(count), ()), groups=KnownGroups(SERVED))


def groups_at_rest(count: int) -> Observed:
    """All groups exist, and all Jobs run in them."""
    js = grouped(count)
    wanted = forest(js)
    if wanted is None:
        return at_rest(count)
    bodies = [
        build_group(js, wanted, group, parent, group.gang)
        for root in wanted.roots
        for group, parent in root.with_parents()
    ]
    stored = [msgspec.convert(_with_uid(body), StoredGroup) for body in bodies]
    known = KnownGroups(
        SERVED,
        workloads=(msgspec.convert(_with_uid(build_workload(js, wanted)), StoredWorkload),),
        composites=tuple(group for group, body in zip(stored, bodies, strict=True) if body["kind"] == COMPOSITE),
        pod_groups=tuple(group for group, body in zip(stored, bodies, strict=True) if body["kind"] == POD_GROUP),
    )
    found = []
    for job in jobs(js, active=1, ready=1, startTime=NOW):
        raw, group = _raw(job), wanted.of_job(job.metadata.name)
        raw["spec"]["template"].setdefault("spec", {})["schedulingGroup"] = {
            "podGroupName": group.name if group else ""
        }
        found.append(msgspec.convert(raw, Job))
    what = replace(observed(js, tuple(found)), groups=known)
    status = plan(what, GATES).status
    return what if status is None else replace(what, jobset=msgspec.structs.replace(js, status=status))


def _with_uid(body: JSON) -> JSON:
    return {**body, "metadata": {**body["metadata"], "uid": body["metadata"]["name"]}}


SCENARIOS: dict[str, Callable[[int], Observed]] = {
    "all ready": at_rest,
    "all to be created": to_be_created,
    "all to be deleted": to_be_deleted,
    "half completed": half_completed,
    "groups, all to be created": groups_to_be_created,
    "groups, all ready": groups_at_rest,
}


OF_THE_LARGEST = ("all ready", "half completed", "one Job has changed", "forty Jobs have been created")
"""The scenarios that are measured for `LARGEST` Jobs, too."""


def suspended(count: int) -> Observed:
    js = jobset(count)
    return observed(msgspec.structs.replace(js, spec=msgspec.structs.replace(js.spec, suspend=True)), ())


HUGE_SCENARIOS: dict[str, Callable[[int], Observed]] = {
    "all to be created": to_be_created,
    "all to be created, suspended": suspended,
}
"""Those of a set of `HUGE` Jobs: what exists is small."""


def best_time(what: Observed, rounds: int) -> float:
    """Processor seconds of the fastest of several plans: what the code needs on an otherwise idle machine."""
    times = []
    for _ in range(rounds):
        fresh = replace(what)
        gc.collect()
        gc.disable()
        started = time.process_time()
        plan(fresh, GATES)
        times.append(time.process_time() - started)
        gc.enable()
    return min(times)


def best_time_of_next(history: Iterator[Observed], rounds: int) -> float:
    """The same for a set that is known from the plan before: of so many plans after the first."""
    known = SortedJobs()
    times = []
    for what in islice(history, rounds + 1):
        gc.collect()
        gc.disable()
        started = time.process_time()
        plan(what, GATES, known=known)
        times.append(time.process_time() - started)
        gc.enable()
    return min(times[1:])


def one_changes(count: int) -> Iterator[Observed]:
    """All Jobs are ready; then one after the other is ready no more."""
    what = at_rest(count)
    while True:
        yield what
        first, *others = what.jobs
        status = msgspec.structs.replace(first.status, ready=0)
        what = replace(what, jobs=(*others, msgspec.structs.replace(first, status=status)))


def forty_are_created(count: int) -> Iterator[Observed]:
    """Half of the Jobs exist; then forty more."""
    what = at_rest(count)
    for exist in range(count // 2, count, DEFAULT_LIMITS.queued_jobs):
        yield replace(what, jobs=what.jobs[:exist])


NEXT: dict[str, Callable[[int], Iterator[Observed]]] = {
    "one Job has changed": one_changes,
    "forty Jobs have been created": forty_are_created,
}
"""Of these the plan before is known."""


def memory(count: int) -> tuple[int, int]:
    """Bytes that the Jobs of a set take in the cache, decoded as the watch does, and bytes of how they were sorted."""
    js = jobset(count)
    bodies = [msgspec.json.encode(job) for job in jobs(js, active=1, ready=1, startTime=NOW)]
    tracemalloc.start()
    try:
        store: Store[Job] = Store({BY_OWNER: controller_uid, BY_SET: set_name})
        for body in bodies:
            store.apply(msgspec.json.decode(body, type=Job))
        cached = tracemalloc.get_traced_memory()[0]
        known = SortedJobs()
        known.sort(js, tuple(store.by_index(BY_OWNER, key_of_children(js))), layout_of(js), GATES)
        return cached, tracemalloc.get_traced_memory()[0] - cached
    finally:
        tracemalloc.stop()


def slope_of(seconds: dict[int, float]) -> float:
    """Least-squares exponent of time over number of Jobs."""
    fitted = {count: spent for count, spent in seconds.items() if count >= FITTED}
    fit = statistics.linear_regression([math.log(n) for n in fitted], [math.log(s) for s in fitted.values()])
    return fit.slope


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.bench.plan", description=__doc__)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table", help="format of the result")
    parser.add_argument("--rounds", type=int, default=15, help="plans for each figure; the fastest counts (15)")
    args = parser.parse_args()
    rows = measure(args.rounds)
    if args.output == "json":
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        show(rows)


def measure(rounds: int = 15) -> list[Row]:
    """A row for each scenario, those of a huge set last; of so many plans the fastest counts."""
    rows = []
    for name, scenario in SCENARIOS.items():
        seconds = {count: best_time(scenario(count), rounds) for count in sizes_of(name)}
        rows.append(Row(name, seconds, slope_of(seconds)))
    for name, history in NEXT.items():
        seconds = {count: best_time_of_next(history(count), rounds) for count in sizes_of(name)}
        rows.append(Row(name, seconds, slope_of(seconds)))
    rows += [Row(name, {HUGE: best_time(scenario(HUGE), rounds)}, None) for name, scenario in HUGE_SCENARIOS.items()]
    return rows


def sizes_of(scenario: str) -> tuple[int, ...]:
    if scenario.startswith("groups"):
        return tuple(count for count in SIZES if count <= MOST_JOBS)
    return (*SIZES, LARGEST) if scenario in OF_THE_LARGEST else SIZES


def show(rows: list[Row]) -> None:
    sizes = (*SIZES, LARGEST, HUGE)
    table = Table(*["plan", *(f"{count:,} Jobs" for count in sizes), "slope"], title="milliseconds for one plan")
    for row in rows:
        cells = [f"{row.seconds[count] * 1e3:.1f}" if count in row.seconds else "" for count in sizes]
        table.add_row(row.scenario, *cells, "" if row.slope is None else f"{row.slope:.2f}")
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)
    late = [row.scenario for row in rows if row.seconds[10_000 if row.slope else HUGE] > GOAL]
    verdict = f"above it: {', '.join(late)}" if late else "all within it"
    console.print(f"Goal for 10,000 and for {HUGE:,} Jobs: {GOAL * 1e3:.0f} ms; {verdict}. A slope of 1 is linear.")
    cached, remembered = memory(SIZES[-1])
    each = f"{cached / SIZES[-1] / 1024:.1f} KiB for each, and {remembered / 2**20:.1f} MiB"
    console.print(f"{SIZES[-1]:,} Jobs take {cached / 2**20:.0f} MiB in the cache, {each} for how they were sorted.")


if __name__ == "__main__":
    main()
