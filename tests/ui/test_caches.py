"""What is watched for the page: bounded, and as far as there is a right to it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import msgspec
import pytest

from api.batch import Job
from kube.client import Client
from kube.clock import now, rfc3339
from kube.errors import from_response
from kube.transport import Request, Response
from tests.support.beside import beside
from tests.support.explain.objects import exclusive, job_of, made, pod_of
from tests.support.model.faults import status_body
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.jobsets import jobset, stored
from tests.support.objects.kube_objects import thing
from ui import caches as module
from ui.board import Board
from ui.caches import BoundedStore, Caches

pytestmark = pytest.mark.looptime
LOADED = 5.0
"""Seconds of virtual time in which all is listed and published."""


class Api(MemoryApi):
    """Lets nobody read what `refused` names."""

    refused: tuple[str, ...] = ()

    async def send(self, request: Request) -> Response:
        if request.path == "/version":
            return Response(200, {}, b"{}")
        if request.path.rpartition("/")[2] in self.refused:
            return Response(403, {}, status_body(403, "Forbidden"))
        return await super().send(request)

    def stream(self, request: Request):
        if request.path.rpartition("/")[2] in self.refused:
            raise from_response(403, {}, status_body(403, "Forbidden"), request.call)
        return super().stream(request)


@contextlib.asynccontextmanager
async def watched(api: Api, namespace: str | None = None) -> AsyncIterator[tuple[Caches, Board]]:
    board = Board("e")
    caches = Caches(Client(api), namespace, board)
    async with beside(caches.run()):
        await asyncio.sleep(LOADED)
        yield caches, board


def api_with_a_set() -> Api:
    """A set with one exclusive Job, whose pod is in rack r1."""
    api = Api(streaming=False)
    js = made(stored(jobset(exclusive())), uid="uid-train")
    job = made(job_of(js, 0), uid="uid-job", active=1, ready=1)
    for plural, obj in (("jobsets", js), ("jobs", job), ("pods", made(pod_of(job, 0, node="n1")))):
        meta = {key: value for key, value in obj["metadata"].items() if key not in {"name", "namespace"}}
        body = {key: value for key, value in obj.items() if key != "metadata"}
        api.put(plural, obj["metadata"]["name"], "default", **body, metadata=meta)
    api.put("nodes", "n1", "", metadata={"labels": {"rack": "r1"}})
    return api


async def test_a_set_is_shown_with_its_jobs_and_where_they_are():
    async with watched(api_with_a_set()) as (caches, board):
        news = json.loads(board.changes_since(""))
        assert [row["name"] for row in news["rows"]] == ["train"]
        shown = caches.detail(("default", "train"))
        assert [job["name"] for job in shown["jobList"]] == ["train-workers-0"]
        assert [domain["name"] for domain in shown["maps"][0]["domains"]] == ["r1"]
        assert shown["maps"][0]["domains"][0]["jobs"][0]["ready"] == 1
        assert caches.topology_map("")["topologies"] == ["rack"]
        assert caches.topology_map("no such key")["map"]["topology"] == "rack"
        assert caches.has_jobset(("default", "train"))
        assert caches.detail(("default", "nobody")) is None


async def test_a_job_that_is_restarted_alone_again_and_again_shows_in_the_state_of_its_set():
    api = api_with_a_set()
    counts = {"name": "workers", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
    js, job = api.objects("jobsets")["default", "train"], api.objects("jobs")["default", "train-workers-0"]
    api.put(
        "jobsets",
        "train",
        "default",
        status={"replicatedJobsStatus": [{**counts, "jobRestarts": [2]}]},
        metadata=js["metadata"],
    )
    api.put("jobs", "train-workers-0", "default", metadata={**job["metadata"], "creationTimestamp": rfc3339(now())})
    async with watched(api) as (caches, board):
        [row] = json.loads(board.changes_since(""))["rows"]
        assert row["state"] == "Keeps failing"
        detail = caches.detail(("default", "train"))
        assert detail is not None
        assert detail["state"] == "Keeps failing"


async def test_what_may_not_be_read_is_named_and_the_rest_is_shown():
    api = api_with_a_set()
    api.refused = ("nodes", "pods")
    async with watched(api, "default") as (caches, board):
        assert json.loads(board.changes_since(""))["notes"] == [
            "the right to list and watch pods is missing, ask for it in namespace default; until then the maps do not show which Job is where",
            "the right to list and watch nodes is missing, ask for it in the whole cluster; until then the maps do not show racks or other domains",
        ]
        assert [job["name"] for job in caches.detail(("default", "train"))["jobList"]] == ["train-workers-0"]


async def test_the_log_names_the_users_own_rights_and_not_those_of_a_manager(caplog):
    api = api_with_a_set()
    api.refused = ("nodes",)
    async with watched(api):
        said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert (
        "the right to list and watch nodes is missing, ask for it in the whole cluster; until then the maps" in said[0]
    )


async def test_a_right_that_is_taken_away_later_is_named_until_it_is_back():
    api = api_with_a_set()
    async with watched(api) as (_, board):
        assert not json.loads(board.changes_since(""))["notes"]
        api.refused = ("jobs",)
        api.cut_streams()
        await asyncio.sleep(60)
        said = json.loads(board.changes_since(""))["notes"]
        assert [note.partition(",")[0] for note in said] == ["the right to list and watch jobs.batch is missing"]
        api.refused = ()
        await asyncio.sleep(120)
        assert not json.loads(board.changes_since(""))["notes"]


async def test_more_than_is_kept_is_named(monkeypatch):
    monkeypatch.setattr(module, "MAX_JOBS", 0)
    async with watched(api_with_a_set()) as (_, board):
        assert "there are more jobs than the 0 that are kept" in json.loads(board.changes_since(""))["notes"]


async def test_a_cluster_without_topologies_has_no_map():
    async with watched(Api(streaming=False)) as (caches, _):
        assert caches.topology_map("rack") == {"topologies": [], "map": None}


def test_a_store_takes_in_no_more_than_it_may():
    store: BoundedStore = BoundedStore(2)
    store.begin()
    for name in "abc":
        store.apply(thing(name, 1))
    store.commit(1)
    assert (len(store), store.has_left_out) == (2, True)
    store.apply(thing("a", 2))
    store.apply(thing("d", 3))
    assert {obj.metadata.resource_version for obj in store.list()} == {"2", "1"}
    store.remove(thing("a", 4))
    store.apply(thing("d", 5))
    assert {obj.metadata.name for obj in store.list()} == {"b", "d"}


def test_a_list_that_fits_again_leaves_out_nothing():
    store: BoundedStore = BoundedStore(1)
    store.begin()
    store.apply(thing("a", 1))
    store.apply(thing("b", 1))
    store.begin()
    store.apply(thing("b", 2))
    store.commit(2)
    assert (len(store), store.has_left_out) == (1, False)


def test_jobs_are_found_by_the_set_that_their_label_names():
    js = made(stored(jobset()))
    job = msgspec.convert(made(job_of(js, 0)), Job)
    assert module._jobset_label_of(job) == ("train",)
