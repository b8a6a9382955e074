"""Spares beside a set: they are made while it runs, and hold up nothing."""

import dataclasses

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from api.jobset import JobSet
from api.spares import running_part
from controllers.planning.actions import CreateJob
from controllers.planning.context import context
from controllers.planning.limits import DEFAULT_LIMITS
from controllers.planning.observed import Observed
from controllers.planning.spares import separate_spares
from controllers.planning.steps.keep_spares import keep_spares
from tests.support.model.world import World
from tests.support.objects.jobsets import jobset, rjob, stored

SPARE = rjob("spare", replicas=2, spareFor="workers")
POLICY = {"maxRestarts": 3}


class Spared(World):
    """As the controller observes it."""

    def observe(self) -> Observed:
        return separate_spares(super().observe())


def world(*spares: dict, gate: bool = True, times: bool = False, **spec) -> World:
    raw = stored(jobset(rjob(replicas=2), *spares, failurePolicy=POLICY, **spec))
    return Spared(msgspec.convert(raw, JobSet), JobSetSpares=gate, JobSetRecoveryTimes=times)


def running(*names: str, **more) -> World:
    made = world(SPARE, **more)
    made.settle()
    made.run("train-workers-0", "train-workers-1")
    made.settle()
    made.run(*names)
    made.settle()
    return made


def numbers(made: World) -> list[tuple[str, int, int]]:
    return [(entry.name, entry.ready, entry.missing) for entry in made.status.spares]


def test_spares_are_made_when_all_workers_are_ready():
    made = world(SPARE)
    made.settle()
    assert sorted(made.jobs) == ["train-workers-0", "train-workers-1"]
    made.run("train-workers-0")
    made.settle()
    assert numbers(made) == [("spare", 0, 2)]
    assert len(made.jobs) == 2, "a worker is not ready yet"
    made.run("train-workers-1")
    made.settle()
    assert sorted(made.jobs) == ["train-spare-0", "train-spare-1", "train-workers-0", "train-workers-1"]
    made.run("train-spare-0")
    made.settle()
    assert numbers(made) == [("spare", 1, 1)]
    assert made.status.ready_jobs == "2/2"
    labels = made.jobs["train-workers-0"]["metadata"]["labels"]
    assert labels["jobset.sigs.k8s.io/global-replicas"] == "2", "workers count no spares"


def test_a_queue_finds_the_counts_of_every_replicated_job():
    """Kueue's `waitForPodsReady` compares the sum of all `replicas` of the spec with that of ready and succeeded Jobs."""

    def counts(made: World) -> dict[str, tuple[int, int, int]]:
        return {each.name: (each.ready, each.active, each.suspended) for each in made.js.status.replicated_jobs_status}

    made = running("train-spare-0")
    assert counts(made) == {"workers": (2, 2, 0), "spare": (1, 1, 0)}
    made.run("train-spare-1")
    made.settle()
    assert counts(made) == {"workers": (2, 2, 0), "spare": (2, 2, 0)}
    assert made.status.ready_jobs == "2/2"
    made.edit(suspend=True)
    made.replace_jobs()
    assert counts(made)["spare"] == (0, 0, 0)


def test_a_plan_that_decides_something_makes_no_spares():
    made = world(SPARE)
    made.settle()
    made.run("train-workers-0", "train-workers-1")
    ctx = context(made.observe(), made.gates, DEFAULT_LIMITS)
    assert [type(action) for action in keep_spares(ctx).actions] == [CreateJob] * 2
    decided = dataclasses.replace(ctx, status=msgspec.structs.replace(ctx.status, restarts=1))
    assert keep_spares(decided).actions == ()


def test_the_set_completes_with_its_workers_and_the_spares_end_with_it():
    made = running("train-spare-0", "train-spare-1")
    made.finish("train-workers-0")
    made.finish("train-workers-1")
    made.settle()
    assert made.status.terminal_state == "Completed"
    made.collect()
    made.settle()
    assert not [name for name in made.live() if "spare" in name]


def test_seconds_of_ready_spares_are_counted_once_beside_those_of_the_set():
    made = running("train-spare-0", times=True)
    made.seconds += 100
    made.run("train-spare-1")
    made.settle()
    assert made.status.recovery.spare_seconds == 100
    made.seconds += 10
    made.edit(suspend=True)
    made.replace_jobs()
    made.seconds += 1000
    made.edit(suspend=False)
    made.settle()
    spent = made.status.recovery
    assert (spent.spare_seconds, spent.running_seconds, spent.lost_seconds) == (120, 110, 0)


def test_spares_keep_their_places_while_the_set_restarts():
    made = running("train-spare-0", "train-spare-1")
    before = {name: made.jobs[name]["metadata"]["uid"] for name in made.jobs}
    made.fail("train-workers-0")
    made.replace_jobs()
    assert made.status.restarts == 1
    after = {name: made.jobs[name]["metadata"]["uid"] for name in made.jobs}
    assert {name for name in after if before.get(name) == after[name]} == {"train-spare-0", "train-spare-1"}


def test_a_suspended_set_has_no_spares_and_gets_them_again():
    made = running("train-spare-0", "train-spare-1")
    made.edit(suspend=True)
    made.replace_jobs()
    assert not [name for name in made.live() if "spare" in name]
    assert numbers(made) == [("spare", 0, 0)]


def test_a_spare_that_ends_by_itself_is_made_again_after_a_minute_and_fails_nothing():
    made = running("train-spare-0", "train-spare-1")
    made.fail("train-spare-0")
    made.settle()
    assert (made.status.restarts, made.status.terminal_state, numbers(made)) == (0, "", [("spare", 1, 1)])
    uid = made.jobs["train-spare-0"]["metadata"]["uid"]
    assert "train-spare-0" in made.live(), "not at once"
    made.seconds += 60
    made.replace_jobs()
    assert made.jobs["train-spare-0"]["metadata"]["uid"] != uid


def test_without_the_gate_there_are_none_and_a_warning_says_so():
    made = running(gate=False)
    assert sorted(made.jobs) == ["train-workers-0", "train-workers-1"]
    assert any("JobSetSpares" in event.note for event in made.plan().warnings)


STEPS = st.lists(
    st.sampled_from(
        [
            ("run", "train-workers-0"),
            ("run", "train-workers-1"),
            ("run", "train-spare-0"),
            ("fail", "train-workers-0"),
            ("fail", "train-spare-0"),
            ("fail", "train-spare-1"),
            ("finish", "train-workers-0"),
            ("finish", "train-workers-1"),
            ("finish", "train-spare-1"),
            ("suspend", ""),
            ("resume", ""),
            ("collect", ""),
            ("wait", ""),
        ]
    ),
    max_size=30,
)


def _apply(made: World, kind: str, name: str) -> None:
    job = made.jobs.get(name)
    if kind in {"suspend", "resume"}:
        if not made.status.terminal_state:
            made.edit(suspend=kind == "suspend")
    elif kind == "collect":
        made.collect()
    elif kind == "wait":
        made.seconds += 61
    elif (
        job
        and "deletionTimestamp" not in job["metadata"]
        and not made.finished(name)
        and not job["spec"].get("suspend")
    ):
        getattr(made, kind)(name)
    made.settle()


def _of_the_set(made: World) -> tuple:
    jobs = {
        name: (job["metadata"]["labels"], job["spec"].get("suspend"), job.get("status"))
        for name, job in made.jobs.items()
        if "spare" not in name
    }
    status = msgspec.to_builtins(running_part(made.js).status)
    status.pop("spares", None)
    events = [(event.reason, event.note) for event in made.events]
    return jobs, status, events


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_whatever_happens_the_set_is_as_it_were_without_spares(steps):
    plain, spared = world(), world(SPARE)
    for made in (plain, spared):
        made.settle()
    for kind, name in steps:
        for made in (plain, spared):
            _apply(made, kind, name)
        assert _of_the_set(spared) == _of_the_set(plain)
        ended = spared.status.terminal_state or spared.js.spec.suspend
        left = [each for each in spared.live() if "spare" in each and not spared.finished(each)]
        assert not (ended and left), "spares outlive the set"
