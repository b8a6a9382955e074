"""What the executor does when the API server refuses or fails; a client with scripted answers stands in for it."""

import contextlib
import dataclasses

import pytest
from msgspec.structs import replace

from api.jobset import JobSet
from api.jobset_status import JobSetStatus
from controllers.jobset.execute import Caches, Executor, FailedWrites, each
from controllers.planning.actions import CreateJob, Event, Plan
from kube.controller import is_terminal
from kube.errors import Conflict, Forbidden, KubeError, NotFound, ServerError, Status, parse_status, retry_after
from kube.store import Store
from tests.support.model.blind import RecordedEvents
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

TERMINATING = b"""{"kind": "Status", "message": "namespace is going away",
    "details": {"causes": [{"reason": "NamespaceTerminating"}]}}"""


class Script:
    """A client of which `create` raises in turn what it is given, and `patch` likewise."""

    def __init__(self, *, create: list[KubeError] = (), patch: list[KubeError] = ()) -> None:
        self.raises = {"create": list(create), "patch": list(patch)}
        self.patched: list[dict] = []

    async def create(self, *_: object, **__: object) -> object:
        raise self.raises["create"].pop(0)

    async def patch(self, _resource: object, _name: str, body: dict, **__: object) -> object:
        self.patched.append(body)
        raise self.raises["patch"].pop(0)


def executor(client: Script, notes: RecordedEvents, js: JobSet | None = None) -> Executor:
    """An executor whose caches hold that JobSet."""
    caches = Caches(Store(), Store(), Store(), Store())
    caches.jobsets.apply(js or jobset())
    return Executor(client, caches, notes)


def creations(count: int) -> Plan:
    world = World(jobset(rjob("workers", count)))
    plan = world.step()
    return dataclasses.replace(plan, actions=tuple(a for a in plan.actions if isinstance(a, CreateJob)))


async def test_a_namespace_that_goes_away_is_not_asked_again():
    gone = Forbidden(403, parse_status(TERMINATING))
    client = Script(create=[gone, gone], patch=[NotFound(404, Status())])
    with pytest.raises(FailedWrites) as failed:
        await executor(client, RecordedEvents()).execute(jobset(), creations(2))
    assert is_terminal(failed.value)


async def test_what_the_server_asks_to_wait_is_kept():
    busy = Forbidden(403, Status(message="quota"), retry_after=7.0)
    client = Script(create=[busy], patch=[NotFound(404, Status())])
    with pytest.raises(FailedWrites) as failed:
        await executor(client, RecordedEvents()).execute(jobset(), creations(1))
    assert not is_terminal(failed.value)
    assert retry_after(failed.value) == 7.0


async def test_many_refusals_are_one_event_that_counts_them():
    refused = [Forbidden(403, Status(message=f"no {n} {'x' * 250}")) for n in range(8)]
    client, notes = Script(create=refused, patch=[NotFound(404, Status())]), RecordedEvents()
    with pytest.raises(FailedWrites):
        await executor(client, notes).execute(jobset(), creations(8))
    [(reason, note)] = notes.notes
    assert reason == "JobCreationFailed"
    assert note.startswith('job "js-workers-0" creation failed with error: no 0 ')
    assert note.endswith("\nand 5 more")
    assert len(note.encode()) <= 1024


async def test_counters_are_published_and_decisions_are_not_when_a_step_fails():
    world = World(jobset(rjob("workers", 1), suspend=True))
    plan = world.step()
    client = Script(create=[Forbidden(403, Status(message="no"))] * 2, patch=[NotFound(404, Status())])
    notes = RecordedEvents()
    with pytest.raises(FailedWrites):
        await executor(client, notes).execute(jobset(), plan)
    [patch] = client.patched
    assert "conditions" not in patch["status"]
    assert patch["status"]["replicatedJobsStatus"][0]["name"] == "workers"
    assert [reason for reason, _ in notes.notes] == ["HeadlessServiceCreationFailed"], "no event of the suspension"


async def test_counters_that_cannot_be_stored_hide_no_other_failure():
    busy = Forbidden(403, Status(message="quota"), retry_after=7.0)
    client = Script(create=[busy], patch=[Conflict(409, Status(message="moved"))])
    with pytest.raises(FailedWrites) as failed:
        await executor(client, RecordedEvents()).execute(jobset(), creations(1))
    assert [type(error) for error in failed.value.exceptions] == [Forbidden, Conflict]
    assert retry_after(failed.value) == 7.0


def at_version(version: int, generation: int = 1) -> JobSet:
    js = jobset()
    return replace(js, metadata=replace(js.metadata, generation=generation, resource_version=str(version)))


class Storing(Script):
    """Stores every status, and refuses Jobs. With `jobsets` the user changes the JobSet just before."""

    jobsets: Store[JobSet] | None = None

    async def create(self, *_: object, **__: object) -> object:
        if self.jobsets is not None:
            self.jobsets.overlay(at_version(3, generation=2))
        raise Forbidden(403, Status(message="no"))

    async def patch(self, *_: object, **__: object) -> JobSet:
        return at_version(2)


@pytest.mark.parametrize(
    ("refused", "changed", "status_first", "told"),
    [
        (False, False, False, "status"),
        (True, False, False, "counters"),
        (True, False, True, "status"),
        (True, True, True, "status"),
    ],
    ids=["done", "failed", "failed after the status", "changed meanwhile"],
)
async def test_the_stored_status_is_reported_even_if_the_plan_fails(refused, changed, status_first, told):
    client, plan = Storing(), creations(1)
    plan = dataclasses.replace(plan, actions=plan.actions if refused else (), status_first=status_first)
    runs = executor(client, RecordedEvents())
    client.jobsets = runs.caches.jobsets if changed else None
    stored: list[JobSetStatus] = []
    with pytest.raises(FailedWrites) if refused and not changed else contextlib.nullcontext():
        await runs.execute(jobset(), plan, stored.append)
    assert stored == [getattr(plan, told)]


@pytest.mark.parametrize(
    "words",
    ["etcdserver: request is too large", "rpc error: trying to send message larger than max (2097999 vs. 2097152)"],
)
@pytest.mark.parametrize("jobs_refused", [False, True])
async def test_a_status_that_is_too_large_is_told_and_tried_again(words, jobs_refused):
    client, notes = Script(patch=[ServerError(500, Status(message=words))]), RecordedEvents()
    client.raises["create"] = [Forbidden(403, Status(message="quota"))] * jobs_refused
    plan = creations(1)
    plan = dataclasses.replace(plan, actions=plan.actions if jobs_refused else (), events=())
    with pytest.raises(FailedWrites if jobs_refused else ServerError) as refused:
        await executor(client, notes).execute(jobset(), plan)
    assert not is_terminal(refused.value)
    [(_, note)] = [(reason, note) for reason, note in notes.notes if reason == "StatusTooLarge"]
    assert "larger than etcd allows" in note
    assert note.endswith(words)


async def test_another_error_of_the_server_is_not_taken_for_that():
    client, notes = Script(patch=[ServerError(500, Status(message="etcdserver: request timed out"))]), RecordedEvents()
    with pytest.raises(ServerError):
        await executor(client, notes).execute(jobset(), dataclasses.replace(creations(1), actions=(), events=()))
    assert notes.notes == []


async def test_no_event_is_recorded_for_a_status_that_was_not_stored():
    client, notes = Script(patch=[Conflict(409, Status(message="moved"))]), RecordedEvents()
    status = World(jobset()).step().status
    with pytest.raises(Conflict):
        await executor(client, notes).execute(jobset(), Plan(status=status, events=(Event("Normal", "R", "n"),)))
    assert notes.notes == []


async def test_each_step_continues_after_a_failure_and_keeps_the_order():
    done: list[int] = []

    async def act(number: int) -> None:
        if number % 3 == 0:
            raise KubeError(f"no {number}")
        done.append(number)

    failures = await each(list(range(200)), act, str)
    assert [failure.label for failure in failures] == [str(n) for n in range(0, 200, 3)]
    assert sorted(done) == [n for n in range(200) if n % 3]
