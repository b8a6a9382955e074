"""Jobs of a large set are sorted again without a look at those that have not changed: the result is always the same."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from api import keys
from api.batch import Job
from api.features import FeatureGates
from api.jobset import JobSet
from api.jobset_status import ReplicatedJobStatus
from api.layout import layout_of
from controllers.planning.child_jobs import sort_jobs
from controllers.planning.sorted_jobs import SortedJobs
from dev.bench import plan as bench
from kube.model.meta import Condition
from tests.support.work import steps

COUNT = 12
GATES = FeatureGates({"RestartJob": True, "ElasticJobSet": True})


def condition(kind: str) -> Condition:
    return Condition(type=kind, status="True")


def with_labels(job: Job, **labels: str) -> Job:
    return replace(job, metadata=replace(job.metadata, labels={**job.metadata.labels, **labels}))


def with_status(job: Job, **status: object) -> Job:
    return replace(job, status=replace(job.status, **status))


STATUSES = st.sampled_from(
    [
        *({"active": 1, "ready": 0}, {"active": 1, "ready": 1}, {"active": 0, "ready": 0, "start_time": None}),
        *({"succeeded": 1}, {"conditions": (condition("Suspended"),)}, {"conditions": ()}),
        *({"conditions": (condition(kind),)} for kind in ("Complete", "Failed", "FailureTarget")),
    ]
)
ODD = st.sampled_from(
    [
        *({keys.RESTART_ATTEMPT: "1"}, {keys.RESTART_ATTEMPT: "x"}, {keys.JOB_INDEX: "0"}, {keys.JOB_INDEX: "-1"}),
        *({keys.REPLICATED_JOB_NAME: "none"}, {keys.JOB_RESTART_ATTEMPT: "1"}),
    ]
)
OF_STATUS = ("restart", "record", "job restart")
NUMBERS = st.integers(0, 3)
"""Few Jobs, so that several changes happen to each: those of the first ReplicatedJob, and one of the second."""
CHANGES = st.one_of(
    st.tuples(st.sampled_from(["status", "status in its place"]), NUMBERS, STATUSES),
    st.tuples(st.just("labels"), NUMBERS, ODD),
    st.tuples(st.sampled_from(["suspend", "delete", "remove", "add", "depart"]), NUMBERS, st.none()),
    st.tuples(st.sampled_from([*OF_STATUS, "resize"]), st.integers(0, 1), st.none()),
)


class Set:
    """A set of some Jobs, and what becomes of them."""

    def __init__(self, *, fail_on: str) -> None:
        js = bench.jobset(COUNT)
        policy = replace(js.spec.failure_policy, fail_on=fail_on)
        self.js: JobSet = replace(js, spec=replace(js.spec, failure_policy=policy))
        self.all = {job.metadata.uid: job for job in bench.jobs(self.js, active=1, startTime=bench.NOW)}
        self.jobs = dict(self.all)
        self.departed: dict[str, Job] = {}

    def change(self, what: str, number: int, to: dict | None) -> None:
        if what in OF_STATUS:
            self._change_status(what, number)
            return
        if what == "resize":
            first, *others = self.js.spec.replicated_jobs
            sized = (replace(first, replicas=COUNT // 4 - number), *others)
            self.js = replace(self.js, spec=replace(self.js.spec, replicated_jobs=sized))
            return
        uid = [*self.all][number]
        if what == "status in its place":  # the cache never does that
            self.jobs.update({uid: with_status(self.jobs[uid], **(to or {}))} if uid in self.jobs else {})
            return
        job = self.jobs.pop(uid, None)  # what changes comes last, as in the index by owner, and is another object
        if what == "add":
            self.jobs[uid] = replace(job or self.all[uid])
        elif what == "depart" and job is not None:
            self.departed[uid] = with_status(job, conditions=(condition("Complete"),))
        elif job is not None and what != "remove":
            self.jobs[uid] = self._changed(job, what, to or {})

    @staticmethod
    def _changed(job: Job, what: str, to: dict) -> Job:
        if what == "status":
            return with_status(job, **to)
        if what == "labels":
            return with_labels(job, **to)
        if what == "suspend":
            return replace(job, spec=replace(job.spec, suspend=not job.spec.suspend))
        return replace(job, metadata=replace(job.metadata, deletion_timestamp=bench.NOW))

    def _change_status(self, what: str, number: int) -> None:
        status = self.js.status
        entry = msgspec.convert(
            {"name": "group-0", "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0},
            ReplicatedJobStatus,
        )
        if what == "restart":
            status = replace(status, restarts=number)
        elif what == "record":
            status = replace(status, replicated_jobs_status=(replace(entry, completed_indexes="0" if number else ""),))
        else:
            status = replace(status, replicated_jobs_status=(replace(entry, job_restarts=(number,)),))
        self.js = replace(self.js, status=status)
        self.departed.clear()


@settings(max_examples=400)
@given(
    st.sampled_from([*OF_STATUS, "resize"]),
    st.lists(st.lists(CHANGES, min_size=1, max_size=3), max_size=15),
    st.sampled_from(["JobFailed", "FailureTarget"]),
)
def test_it_gives_what_sorting_all_gives(first, history, fail_on):
    of, known = Set(fail_on=fail_on), SortedJobs()
    for changes in ([], [(first, 1, None)], *history):
        for change in changes:
            of.change(*change)
        what = of.js, tuple(of.jobs.values()), layout_of(of.js), GATES, tuple(of.departed.values())
        assert known.sort(*what) == sort_jobs(*what)


CHANGED = {
    "created": ((), {}),
    "ready": ({}, {"ready": 0}),
    "completed": ({}, {"conditions": (condition("Complete"),)}),
    "gone": ({}, ()),
}


@pytest.mark.parametrize("count", [400, 1600])
@pytest.mark.parametrize("change", CHANGED)
def test_a_job_that_changes_takes_the_same_work_in_a_set_of_any_size(count, change):
    observed = bench.idle_set(count)
    known, layout = SortedJobs(), layout_of(observed.jobset)
    first, *others = observed.jobs
    before, after = ((*others, *([with_status(first, **how)] if how != () else ())) for how in CHANGED[change])
    known.sort(observed.jobset, before, layout, GATES)
    assert steps(lambda: known.sort(observed.jobset, after, layout, GATES)) < 1000
    assert steps(lambda: sort_jobs(observed.jobset, after, layout, GATES)) > 20 * count
