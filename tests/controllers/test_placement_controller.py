"""Followers are brought after their leader, once; misplaced ones are found where there is cause to look."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from api import keys
from api.batch import Job
from controllers.placement import controller as module
from controllers.placement import telling
from controllers.placement.controller import (
    LAST_LOOK,
    LONGEST_RELABEL,
    NODE_PAUSE,
    RELABEL_PAUSE,
    JobRequest,
    PlacementReconciler,
    request_of_pod,
)
from controllers.placement.plan import PATIENCE, REASON, TELL_EVERY
from controllers.placement.watches import PlacementWatches
from kube.client import METADATA, Client
from kube.controller import Controller, Result, is_terminal
from kube.errors import Conflict
from kube.informer import Informer
from kube.parallel import PARALLEL_WRITES
from kube.resources import JOBS
from kube.transport import Request, Response
from kube.workqueue import WorkQueue
from tests.support.faults import Answer, FaultyTransport, status_body
from tests.support.memory_api import MemoryApi, merge
from tests.support.placement import (
    EPOCH,
    RACK,
    follower_of,
    hide,
    leader_of,
    list_empty,
    moment,
    node_of,
    pod_json,
    show,
)

pytestmark = pytest.mark.looptime

JOB = "js-w-0"
REQUEST = JobRequest("ns", JOB, f"uid-{JOB}")
BOUND = leader_of(node="n1")
NEXT = leader_of(name=f"{JOB}-0-fghij", node="n2", created=moment(10))


class Pods(MemoryApi):
    """Pods as the API server does them where it matters here: selectors, uid guards, strategic merges of two lists."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[str, str, dict[str, Any]]] = []
        self.accepted: list[str] = []
        self.lists: list[str] = []
        self.most = 0
        self._running = 0

    async def send(self, request: Request) -> Response:
        self._running += 1
        self.most = max(self.most, self._running)
        await asyncio.sleep(0.001)
        try:
            return self._pods(request)
        finally:
            self._running -= 1

    def _pods(self, request: Request) -> Response:
        match = re.fullmatch(r"/api/v1/namespaces/ns/pods(/(?P<name>[^/]+))?(?P<status>/status)?", request.path)
        assert match is not None, request.path
        if request.method == "GET":
            return self._page(dict(request.query))
        body = msgspec.json.decode(request.body) if request.body else {}
        self.writes.append((request.verb, match["name"] + (match["status"] or ""), body))
        self.accepted.append(request.accept)
        old = self.objects("pods").get(("ns", match["name"]))
        if old is None:
            return Response(404, {}, status_body(404))
        guard = body.get("preconditions", body.get("metadata", {})).get("uid", old["metadata"]["uid"])
        if guard != old["metadata"]["uid"]:
            return Response(409, {}, status_body(409))
        if request.method == "DELETE":
            self.drop("pods", match["name"])
            return Response(200, {}, b"{}")
        assert request.content_type == "application/strategic-merge-patch+json"
        new = merge(old, body)
        gone = [gate["name"] for gate in body.get("spec", {}).get("schedulingGates", []) if gate["$patch"] == "delete"]
        if gone:
            gates = old["spec"].get("schedulingGates", [])
            new["spec"]["schedulingGates"] = [gate for gate in gates if gate["name"] not in gone]
        self.put("pods", match["name"], **new)
        return Response(200, {}, msgspec.json.encode(new))

    def _page(self, query: dict[str, str]) -> Response:
        key, _, value = query["labelSelector"].partition("=")
        self.lists.append(value)
        found = [pod for pod in self.objects("pods").values() if pod["metadata"]["labels"].get(key) == value]
        first, limit = int(query.get("continue", 0)), int(query["limit"])
        meta = {"continue": str(first + limit)} if len(found) > first + limit else {}
        return Response(
            200, {}, msgspec.json.encode({"metadata": meta, "items": found[first : first + limit], "kind": "PodList"})
        )


class Bench:
    """A placement controller whose watches show what a test says."""

    def __init__(self) -> None:
        self.api = Pods()
        self.transport = FaultyTransport(self.api)
        client = Client(self.transport)
        self.watches = PlacementWatches(client)
        self.jobs = Informer(client, JOBS, Job)
        for informer in (self.watches.leaders, self.watches.followers, self.watches.nodes, self.jobs):
            list_empty(informer)
        show(self.watches.nodes, node_of("n1", rack="r1"), node_of("n2", rack="r2"), node_of("bare"))
        self.events: list[tuple[Any, str, str, str]] = []
        self.reconciler = PlacementReconciler(client, self.watches, self.jobs, self)
        self.queue: WorkQueue[JobRequest] = WorkQueue()

    def record(self, regarding: Any, kind: str, reason: str, note: str) -> None:
        self.events.append((regarding, kind, reason, note))

    def feed(self) -> Bench:
        self.reconciler.feed(self.queue)
        return self

    def add_job(self, job: str = JOB, *, active: int = 3, **annotations: str) -> None:
        show(self.jobs, job_of(job, active=active, **annotations))

    def add_pod(self, index: int = 1, **more: Any) -> None:
        """A pod in the API server that no watch shows."""
        pod = pod_json(index=index, **more)
        self.api.put("pods", pod["metadata"]["name"], **pod)

    def add_waiting(self, *indexes: int) -> None:
        """Gated followers, which the watch shows."""
        for index in indexes:
            gates = [{"name": "other"}, {"name": keys.PLACEMENT_GATE}]
            labels = {**pod_json()["metadata"]["labels"], keys.AWAITS_LEADER: "true"}
            self.add_pod(
                index, meta={"labels": labels}, spec={"nodeSelector": {"disk": "ssd"}, "schedulingGates": gates}
            )
            show(self.watches.followers, follower_of(index=index))

    def pod(self, index: int) -> dict[str, Any] | None:
        return self.api.objects("pods").get(("ns", f"{JOB}-{index}-abcde"))

    async def reconcile(self) -> float | None:
        return (await self.reconciler.reconcile(REQUEST)).requeue_after

    async def until_idle(self) -> None:
        """Work on what the queue has to give now."""
        while self.queue.depth():
            request = await self.queue.get()
            outcome = await self.reconciler.reconcile(request)
            self.queue.done(request)
            if outcome.requeue_after is not None:
                self.queue.add_after(request, outcome.requeue_after)

    def remembered(self) -> dict[JobRequest, Any]:
        """Jobs whose pods will be read, and when."""
        return self.reconciler._looks

    def deleted(self) -> list[str]:
        return [name for verb, name, _ in self.api.writes if verb == "delete"]

    def marked(self) -> list[str]:
        return [name.removesuffix("/status") for _, name, _ in self.api.writes if name.endswith("/status")]


def job_of(job: str = JOB, *, active: int = 3, uid: str = "", suspend: bool = False, **annotations: str) -> Job:
    meta = {"name": job, "namespace": "ns", "uid": uid or f"uid-{job}"}
    pods = {"annotations": annotations or {keys.JOBSET_NAME: "js", keys.EXCLUSIVE_TOPOLOGY: RACK}}
    spec = {"suspend": suspend, "template": {"metadata": pods}}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"active": active}}, Job)


@pytest.fixture
async def bench(monkeypatch) -> Bench:
    """The clock on the wall goes with the loop's, which begins at 0 with each test."""
    for part in (module, telling):
        monkeypatch.setattr(part, "now", lambda: EPOCH + timedelta(seconds=asyncio.get_running_loop().time()))
    return Bench()


class TestLifting:
    async def test_followers_are_brought_to_their_leader_s_domain(self, bench):
        bench.add_waiting(1, 2, 3)
        show(bench.watches.leaders, BOUND)
        assert await bench.reconcile() is None
        for index in (1, 2, 3):
            pod = bench.pod(index)
            assert pod["spec"]["nodeSelector"] == {"disk": "ssd", RACK: "r1"}, "what else was selected is kept"
            assert pod["spec"]["schedulingGates"] == [{"name": "other"}], "only our gate is taken"
            assert keys.AWAITS_LEADER not in pod["metadata"]["labels"]
            assert keys.JOB_UID in pod["metadata"]["labels"]
        assert len(bench.api.writes) == 3
        assert set(bench.api.accepted) == {METADATA}, "pods do not have to be sent back"
        assert bench.api.lists == []

    async def test_each_of_them_once_however_late_the_watch_is(self, bench):
        bench.add_waiting(1, 2)
        show(bench.watches.leaders, BOUND)
        for _ in range(3):
            await bench.reconcile()
        show(bench.watches.followers, follower_of(index=1))  # a change from before the lift
        await bench.reconcile()
        assert len(bench.api.writes) == 2
        hide(bench.watches.followers, follower_of(index=1))
        bench.add_waiting(3)
        await bench.reconcile()
        assert [name for _, name, _ in bench.api.writes[2:]] == [f"{JOB}-3-abcde"]

    async def test_nobody_is_written_to_while_the_leader_waits(self, bench):
        bench.add_waiting(1)
        show(bench.watches.leaders, leader_of())
        await bench.reconcile()
        assert bench.api.writes == []

    async def test_nor_without_a_leader(self, bench):
        bench.add_waiting(1)
        show(bench.watches.leaders, leader_of(node="n1", live=False))
        await bench.reconcile()
        assert bench.api.writes == []

    async def test_followers_of_another_job_of_that_name_are_not_touched(self, bench):
        show(bench.watches.leaders, BOUND)
        show(bench.watches.followers, follower_of(index=9, job_uid="uid-earlier"))
        await bench.reconcile()
        assert bench.api.writes == []

    async def test_a_follower_that_is_gone_is_no_failure(self, bench):
        show(bench.watches.leaders, BOUND)
        show(bench.watches.followers, follower_of(index=1))
        assert await bench.reconcile() is None
        await bench.reconcile()
        assert len(bench.api.writes) == 1, "and is not tried again"

    async def test_another_pod_of_that_name_is_not_touched(self, bench):
        bench.add_waiting(1)
        show(bench.watches.followers, follower_of(index=1, uid="earlier"))
        show(bench.watches.leaders, BOUND)
        with pytest.raises(ExceptionGroup) as failed:
            await bench.reconcile()
        assert isinstance(failed.value.exceptions[0], Conflict)
        assert not is_terminal(failed.value), "the watch will show the new pod"
        assert bench.pod(1)["spec"]["nodeSelector"] == {"disk": "ssd"}

    async def test_one_that_is_refused_does_not_hold_up_the_others(self, bench):
        bench.add_waiting(1, 2, 3)
        show(bench.watches.leaders, BOUND)
        bench.transport.inject(Answer(422), verb="patch", path=f"{JOB}-2-")
        with pytest.raises(ExceptionGroup):
            await bench.reconcile()
        assert [RACK in bench.pod(index)["spec"]["nodeSelector"] for index in (1, 2, 3)] == [True, False, True]
        await bench.reconcile()
        assert RACK in bench.pod(2)["spec"]["nodeSelector"], "it is tried again, and only it"
        assert len(bench.api.writes) == 3

    async def test_one_that_is_refused_does_not_stop_the_repair(self, bench):
        bench.add_job()
        bench.feed()
        bench.add_waiting(1)
        bench.add_pod(2, spec={"nodeName": "n2"})
        show(bench.watches.leaders, BOUND)
        bench.transport.inject(Answer(422), verb="patch", path=f"{JOB}-1-", times=9)
        with pytest.raises(ExceptionGroup):
            await bench.reconcile()
        assert bench.deleted() == [f"{JOB}-2-abcde"]

    async def test_many_at_a_time_but_not_all(self, bench):
        bench.add_waiting(*range(1, 301))
        show(bench.watches.leaders, BOUND)
        await bench.reconcile()
        assert len(bench.api.writes) == 300
        assert 1 < bench.api.most <= PARALLEL_WRITES

    async def test_the_node_may_be_seen_later_than_the_leader(self, bench):
        bench.add_waiting(1)
        show(bench.watches.leaders, leader_of(node="late"))
        assert await bench.reconcile() == NODE_PAUSE
        show(bench.watches.nodes, node_of("late", rack="r5"))
        assert await bench.reconcile() is None
        assert bench.pod(1)["spec"]["nodeSelector"][RACK] == "r5"

    async def test_a_node_without_the_label_brings_nobody_anywhere(self, bench):
        bench.add_waiting(1)
        show(bench.watches.leaders, leader_of(node="bare"))
        assert await bench.reconcile() == NODE_PAUSE
        await asyncio.sleep(PATIENCE)
        assert await bench.reconcile() == PATIENCE, "it does not mend itself in a moment"
        assert bench.api.writes == []
        bench.add_job()
        bench.feed()
        show(bench.watches.nodes, node_of("bare", rack="r5"))
        await asyncio.sleep(RELABEL_PAUSE + 0.1)
        await bench.until_idle()
        assert bench.pod(1)["spec"]["nodeSelector"][RACK] == "r5", "but somebody may mend it"

    async def test_followers_that_are_made_again_go_where_a_leader_that_has_succeeded_was(self, bench):
        """Index 0 is done, and its Job makes no other leader."""
        bench.feed()
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        show(bench.watches.leaders, leader_of(node="n1", live=False, succeeded=True))
        bench.add_waiting(1)
        await bench.until_idle()
        assert bench.pod(1)["spec"]["nodeSelector"][RACK] == "r1"
        assert bench.api.lists == []

    async def test_changes_bring_the_job_up(self, bench):
        bench.feed()
        bench.add_waiting(1)
        await bench.until_idle()
        assert bench.api.writes == []
        show(bench.watches.leaders, leader_of())
        await bench.until_idle()
        assert bench.api.writes == []
        show(bench.watches.leaders, BOUND)
        await bench.until_idle()
        assert [name for _, name, _ in bench.api.writes] == [f"{JOB}-1-abcde"]
        bench.add_waiting(2)
        await bench.until_idle()
        assert [name for _, name, _ in bench.api.writes] == [f"{JOB}-1-abcde", f"{JOB}-2-abcde"]

    async def test_what_was_there_before_comes_up_too(self, bench):
        """The lease came to this replica when its caches were full already."""
        show(bench.watches.leaders, BOUND)
        bench.add_waiting(1)
        bench.feed()
        await bench.until_idle()
        assert RACK in bench.pod(1)["spec"]["nodeSelector"]


class TestRepair:
    async def test_no_pods_are_read_for_a_job_that_is_new(self, bench):
        bench.feed()
        bench.add_job()
        bench.add_waiting(1, 2)
        show(bench.watches.leaders, leader_of())
        await bench.until_idle()
        show(bench.watches.leaders, BOUND)
        await bench.until_idle()
        bench.add_job(active=4)
        show(bench.watches.leaders, BOUND)
        await bench.until_idle()
        assert bench.api.lists == []

    async def test_they_are_read_once_for_a_job_that_ran_before_this_process(self, bench):
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        bench.feed()
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]
        for _ in range(3):
            show(bench.watches.leaders, BOUND)
            await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]

    @pytest.mark.parametrize(
        ("active", "annotations"),
        [
            (3, {keys.JOBSET_NAME: "js"}),
            (3, {keys.JOBSET_NAME: "js", keys.EXCLUSIVE_TOPOLOGY: RACK, keys.NODE_SELECTOR_STRATEGY: "true"}),
            (1, {}),
        ],
        ids=["ordinary", "node-selector strategy", "of one pod, the leader"],
    )
    async def test_not_for_other_jobs(self, bench, active, annotations):
        bench.add_job(active=active, **annotations)
        bench.feed()
        assert bench.remembered() == {}

    async def test_misplaced_followers_are_marked_and_deleted(self, bench):
        bench.add_job()
        bench.add_pod(0, spec={"nodeName": "n1"})
        bench.add_pod(1, spec={"nodeName": "n1"})
        bench.add_pod(2, spec={"nodeName": "n2"})
        bench.add_pod(3, spec={"nodeSelector": {RACK: "r2"}})
        bench.add_pod(4, spec={"nodeName": "n2"}, meta={"labels": {keys.JOB_UID: "another"}})
        conditions: list[dict] = []
        put = bench.api.put

        def remember(plural: str, name: str, **fields: Any) -> Any:
            conditions.extend(fields.get("status", {}).get("conditions", []))
            return put(plural, name, **fields)

        bench.api.put = remember
        show(bench.watches.leaders, BOUND)
        bench.feed()
        await bench.until_idle()
        gone = [f"{JOB}-2-abcde", f"{JOB}-3-abcde"]
        assert (sorted(bench.deleted()), sorted(bench.marked())) == (gone, gone)
        for name in gone:
            assert [verb for verb, what, _ in bench.api.writes if what.startswith(name)] == ["patch", "delete"]
        assert conditions[0] == {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "ExclusivePlacementViolation",
            "message": "Pod violated JobSet exclusive placement policy",
            "lastTransitionTime": conditions[0]["lastTransitionTime"],
        }
        assert conditions[0]["lastTransitionTime"].startswith("2026-01-01T00:00:0")
        policies = [body.get("propagationPolicy") for verb, _, body in bench.api.writes if verb == "delete"]
        assert policies == ["Background"] * 2

    async def test_a_pod_that_took_the_name_meanwhile_is_not_deleted(self, bench):
        bench.add_job()
        bench.add_pod(2, spec={"nodeName": "n2"})
        show(bench.watches.leaders, BOUND)
        bench.feed()
        page = bench.api._page

        def swapped(query: dict[str, str]) -> Response:
            answer = page(query)
            bench.api.drop("pods", f"{JOB}-2-abcde")
            bench.add_pod(2, meta={"uid": "the-next"}, spec={"nodeName": "n1"})
            return answer

        bench.api._page = swapped
        with pytest.raises(ExceptionGroup):
            await bench.until_idle()
        assert bench.pod(2)["metadata"]["uid"] == "the-next"
        assert bench.pod(2).get("status", {}) == {}

    async def test_nor_one_that_took_it_after_the_mark(self, bench):
        bench.add_job()
        bench.add_pod(2, spec={"nodeName": "n2"})
        show(bench.watches.leaders, BOUND)
        bench.feed()

        def replaced(request: Request, _: Response) -> None:
            if request.path.endswith("/status"):
                bench.api.drop("pods", f"{JOB}-2-abcde")
                bench.add_pod(2, meta={"uid": "the-next"}, spec={"nodeName": "n1"})

        bench.transport.after_write = replaced
        with pytest.raises(ExceptionGroup):
            await bench.until_idle()
        assert bench.pod(2)["metadata"]["uid"] == "the-next"

    async def test_one_that_is_gone_before_it_is_marked_is_no_failure(self, bench):
        bench.add_job()
        bench.add_pod(2, spec={"nodeName": "n2"})
        show(bench.watches.leaders, BOUND)
        bench.feed()
        bench.transport.inject(Answer(404), verb="patch")
        await bench.until_idle()
        assert bench.deleted() == []
        assert bench.remembered() == {}

    async def test_a_refusal_brings_the_next_look(self, bench):
        bench.add_job()
        bench.add_pod(2, spec={"nodeName": "n2"})
        show(bench.watches.leaders, BOUND)
        bench.feed()
        bench.transport.inject(Answer(403), verb="patch", path="/status")
        with pytest.raises(ExceptionGroup):
            await bench.reconcile()
        assert bench.deleted() == [], "it is marked before it is deleted, or it is not deleted"
        await bench.reconcile()
        assert bench.deleted() == [f"{JOB}-2-abcde"]
        assert len(bench.api.lists) == 2

    async def test_all_pages_are_read(self, bench):
        bench.add_job()
        for index in range(1, 1202):
            bench.add_pod(index, spec={"nodeName": "n1"})
        bench.add_pod(1202, spec={"nodeName": "n2"})
        show(bench.watches.leaders, BOUND)
        bench.feed()
        await bench.until_idle()
        assert bench.deleted() == [f"{JOB}-1202-abcde"]
        assert len(bench.api.lists) == 3

    async def test_not_while_the_domain_is_unknown(self, bench):
        bench.add_job()
        bench.add_pod(2, spec={"nodeName": "n2"})
        show(bench.watches.leaders, leader_of(node="late"))
        bench.feed()
        await bench.until_idle()
        assert bench.api.lists == []
        show(bench.watches.nodes, node_of("late", rack="r1"))
        await bench.reconcile()
        assert bench.deleted() == [f"{JOB}-2-abcde"], "and as soon as it is known"

    @pytest.mark.parametrize("way", ["deleted", "ends, then deleted", "ends", "ends late"])
    async def test_once_after_a_leader_that_had_led_is_gone(self, bench, way):
        bench.feed()
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        await bench.until_idle()
        bench.add_pod(1, spec={"nodeName": "n1"})
        ending = leader_of(node="n1", live=False)
        if way != "deleted":
            show(bench.watches.leaders, ending)
        if way in {"deleted", "ends, then deleted"}:
            hide(bench.watches.leaders, ending)
        await bench.until_idle()
        assert bench.api.lists == [], "where the followers belong is not known yet"
        show(bench.watches.leaders, leader_of(name=NEXT.name))
        await bench.until_idle()
        show(bench.watches.leaders, NEXT)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]
        assert bench.deleted() == [f"{JOB}-1-abcde"]
        if way == "ends late":
            hide(bench.watches.leaders, ending)
        show(bench.watches.leaders, NEXT)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid], "once"
        await asyncio.sleep(LAST_LOOK - 1)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]
        bench.add_pod(2, spec={"nodeSelector": {RACK: "r1"}})
        await asyncio.sleep(2)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid] * 2, "and when every replica must have noticed"
        assert bench.deleted()[1:] == [f"{JOB}-2-abcde"]
        await asyncio.sleep(3 * LAST_LOOK)
        await bench.until_idle()
        assert len(bench.api.lists) == 2
        assert bench.remembered() == {}

    async def test_a_job_that_is_suspended_is_looked_at_once(self, bench):
        """All its pods go; nobody is led before it is resumed."""
        bench.feed()
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        show(bench.jobs, job_of(suspend=True))
        hide(bench.watches.leaders, BOUND)
        show(bench.jobs, job_of())
        show(bench.watches.leaders, NEXT)
        await bench.until_idle()
        await asyncio.sleep(2 * LAST_LOOK)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]

    async def test_a_leader_that_has_succeeded_is_no_loss(self, bench):
        bench.feed()
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        done = leader_of(node="n1", live=False, succeeded=True)
        show(bench.watches.leaders, done)
        hide(bench.watches.leaders, done)
        assert bench.remembered() == {}

    async def test_a_leader_that_never_led_has_misplaced_nobody(self, bench):
        bench.feed()
        bench.add_job()
        show(bench.watches.leaders, leader_of())
        hide(bench.watches.leaders, leader_of())
        show(bench.watches.leaders, NEXT)
        await bench.until_idle()
        assert bench.api.lists == []

    @pytest.mark.parametrize("gone", ["deleted", "deleting", "another"])
    async def test_nothing_is_remembered_of_a_leader_whose_job_is_gone(self, bench, gone):
        bench.feed()
        if gone == "deleting":
            job = job_of()
            show(
                bench.jobs,
                msgspec.structs.replace(
                    job, metadata=msgspec.structs.replace(job.metadata, deletion_timestamp=moment())
                ),
            )
        elif gone == "another":
            show(bench.jobs, job_of(uid="uid-another"))
        show(bench.watches.leaders, BOUND)
        hide(bench.watches.leaders, BOUND)
        assert bench.remembered() == {}

    async def test_what_is_remembered_goes_with_the_job(self, bench):
        bench.add_job()
        bench.feed()
        assert bench.remembered()
        hide(bench.jobs, job_of())
        assert bench.remembered() == {}

    async def test_another_cause_during_a_look_brings_another_look(self, bench):
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        bench.feed()
        page = bench.api._page

        def relabelled(query: dict[str, str]) -> Response:
            bench.api._page = page
            show(bench.watches.nodes, node_of("n1", rack="r9"))
            return page(query)

        bench.api._page = relabelled
        await bench.reconcile()
        await asyncio.sleep(RELABEL_PAUSE + 1)
        await bench.reconcile()
        assert len(bench.api.lists) == 2


class TestNodes:
    async def ready(self, bench: Bench) -> None:
        bench.feed()
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        await bench.until_idle()

    @pytest.mark.parametrize(
        ("node", "labels"),
        [("n1", {"rack": "r9"}), ("n3", {"rack": "r9"})],
        ids=["the leader's", "a follower's"],
    )
    async def test_followers_are_looked_for_a_while_after_a_node_was_moved(self, bench, node, labels):
        show(bench.watches.nodes, node_of("n3", rack="r1"))
        await self.ready(bench)
        bench.add_pod(1, spec={"nodeName": "n1"})
        bench.add_pod(2, spec={"nodeName": "n3"})
        show(bench.watches.nodes, node_of(node, **labels))
        await asyncio.sleep(RELABEL_PAUSE - 0.1)
        await bench.until_idle()
        assert bench.api.lists == [], "a whole rack is renamed node by node"
        await asyncio.sleep(0.2)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]
        assert bench.deleted() == [f"{JOB}-2-abcde"]

    @pytest.mark.parametrize("pace", [0.1, 0.8])
    async def test_a_rack_that_is_renamed_costs_nobody_a_pod(self, bench, pace):
        """However long it takes: what counts is the time since the last node."""
        show(bench.watches.nodes, node_of("n3", rack="r1"))
        await self.ready(bench)
        bench.add_pod(1, spec={"nodeName": "n3"})
        show(bench.watches.nodes, *(node_of(f"other-{number}", rack="r1") for number in range(4)))
        for node in ("n1", *(f"other-{number}" for number in range(4)), "n3"):
            show(bench.watches.nodes, node_of(node, rack="new"))
            await asyncio.sleep(RELABEL_PAUSE * pace)
            await bench.until_idle()
        await asyncio.sleep(RELABEL_PAUSE + 1)
        await bench.until_idle()
        assert bench.api.lists
        assert bench.deleted() == []

    async def test_a_node_that_joins_the_domain_is_looked_at_too(self, bench):
        await self.ready(bench)
        show(bench.watches.nodes, node_of("n2", rack="r1"))
        await asyncio.sleep(RELABEL_PAUSE + 1)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]

    @pytest.mark.parametrize(
        "node",
        [
            node_of("n1", rack="r1", other="x"),
            node_of("n2", rack="r3"),
            node_of("n9", rack="r1"),
            node_of("n1", asked=("zone", RACK), rack="r1", zone="z"),
            node_of("n4", rack="r1"),
        ],
        ids=["another label", "another domain", "a new node", "one more label is read", "the label is read at last"],
    )
    async def test_what_concerns_nobody_is_left(self, bench, node):
        show(bench.watches.nodes, node_of("n4", asked=("zone",), rack="r1"))
        await self.ready(bench)
        show(bench.watches.nodes, node)
        await asyncio.sleep(RELABEL_PAUSE + 1)
        assert bench.queue.depth() == {}
        assert bench.remembered() == {}

    async def test_a_node_that_is_gone_is_its_pods_end_and_not_our_matter(self, bench):
        await self.ready(bench)
        hide(bench.watches.nodes, node_of("n1", rack="r1"))
        await asyncio.sleep(RELABEL_PAUSE + 1)
        assert bench.queue.depth() == {}
        assert bench.remembered() == {}

    async def test_relabelling_without_end_does_not_put_the_look_off_for_ever(self, bench):
        await self.ready(bench)
        bench.add_pod(1, spec={"nodeName": "n2"})
        show(bench.watches.nodes, node_of("n2", rack="r1"))
        show(bench.watches.nodes, node_of("n2", rack="r2"))
        for number in range(int(LONGEST_RELABEL)):
            show(bench.watches.nodes, node_of("busy", rack=f"x{number}"))
            await asyncio.sleep(1.1)
            await bench.until_idle()
        assert bench.deleted() == [f"{JOB}-1-abcde"]

    async def test_many_nodes_are_one_look(self, bench):
        await self.ready(bench)
        many = [node_of(f"many-{number}", rack="r1") for number in range(300)]
        show(bench.watches.nodes, *many)
        show(bench.watches.nodes, *(node_of(node.name, rack="r9") for node in many))
        await asyncio.sleep(RELABEL_PAUSE + 1)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]
        assert bench.remembered() == {}

    async def test_nothing_is_remembered_of_leaders_that_have_ended_or_lost_their_job(self, bench):
        bench.feed()
        show(bench.watches.leaders, leader_of(node="n1", live=False), leader_of("gone", node="n1"))
        show(bench.watches.nodes, node_of("n1", rack="r9"))
        await bench.until_idle()
        await asyncio.sleep(RELABEL_PAUSE + 1)
        for request in (REQUEST, request_of_pod(leader_of("gone"))):
            await bench.reconciler.reconcile(request)
        assert bench.remembered() == {}


class TestTelling:
    async def test_a_leader_gets_a_moment(self, bench):
        show(bench.watches.leaders, leader_of())
        assert await bench.reconcile() == pytest.approx(PATIENCE, abs=0.1)
        assert bench.events == []
        await asyncio.sleep(PATIENCE)
        assert await bench.reconcile() == TELL_EVERY
        assert len(bench.events) == 1

    async def test_what_is_told(self, bench):
        await asyncio.sleep(PATIENCE)
        show(bench.watches.leaders, leader_of(reason="0/20 nodes are available", since=moment(2)))
        await bench.reconcile()
        [(regarding, kind, reason, note)] = bench.events
        assert (kind, reason) == ("Warning", REASON)
        assert REASON == "ExclusivePlacementPending"
        assert (regarding.api_version, regarding.kind) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
        assert (regarding.namespace, regarding.name, regarding.uid) == ("ns", "js", "uid-js")
        assert f"{JOB}-0-abcde" in note
        assert moment(2) in note
        assert "0/20 nodes are available" in note

    async def test_once_a_minute_for_a_jobset_however_many_jobs_wait(self, bench):
        show(bench.watches.leaders, *(leader_of(f"js-w-{n}") for n in range(30)))
        bench.feed()
        controller = Controller("placement", bench.queue, bench.reconciler.reconcile, workers=4)
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run())
            await asyncio.sleep(PATIENCE + 5.5 * TELL_EVERY)
            bench.queue.shutdown()
        assert len(bench.events) == 6
        assert all("29 more of its Jobs wait likewise" in note for *_, note in bench.events)

    async def test_each_jobset_is_told_of(self, bench):
        await asyncio.sleep(PATIENCE)
        show(bench.watches.leaders, *(leader_of(f"j{n}-w-0", jobset=f"j{n}", jobset_uid=f"u{n}") for n in range(3)))
        bench.feed()
        await bench.until_idle()
        assert {regarding.name for regarding, *_ in bench.events} == {"j0", "j1", "j2"}
        assert all("more of its Jobs" not in note for *_, note in bench.events)

    async def test_of_bound_and_ended_leaders_nothing_is_told(self, bench):
        await asyncio.sleep(PATIENCE)
        show(
            bench.watches.leaders,
            leader_of(),
            leader_of("js-w-1", node="n1"),
            leader_of("js-w-2", live=False),
            leader_of("js-w-3", jobset_uid="another"),
        )
        await bench.reconcile()
        assert all("more of its Jobs" not in note for *_, note in bench.events)
        assert len(bench.events) == 1

    async def test_the_wait_is_over_as_soon_as_there_is_a_domain(self, bench):
        await asyncio.sleep(PATIENCE)
        show(bench.watches.leaders, BOUND)
        assert await bench.reconcile() is None
        assert bench.events == []

    async def test_a_node_that_lacks_the_label_is_told_of(self, bench):
        await asyncio.sleep(2 * PATIENCE)
        show(bench.watches.leaders, leader_of(node="bare"))
        await bench.reconcile()
        await asyncio.sleep(2 * PATIENCE)
        await bench.reconcile()
        [(*_, note)] = bench.events
        assert "js-w-0-0-abcde runs on node bare, which has no label rack" in note

    async def test_a_node_that_is_only_seen_later_is_nothing_to_tell(self, bench):
        """An autoscaler has made it for the leader a moment ago."""
        await asyncio.sleep(10 * PATIENCE)
        show(bench.watches.leaders, leader_of(node="late"))
        assert await bench.reconcile() == NODE_PAUSE
        show(bench.watches.nodes, node_of("late", asked=("zone",), rack="r5"))
        assert await bench.reconcile() == NODE_PAUSE
        assert bench.events == []

    async def test_a_node_that_does_not_come_is_told_of(self, bench):
        show(bench.watches.leaders, leader_of(node="gone"))
        bench.feed()
        controller = Controller("placement", bench.queue, bench.reconciler.reconcile, workers=1)
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run())
            await asyncio.sleep(PATIENCE + 2.5 * TELL_EVERY)
            bench.queue.shutdown()
        assert len(bench.events) == 3
        assert "js-w-0-0-abcde runs on node gone, which does not exist" in bench.events[0][-1]

    @pytest.mark.parametrize(("pods", "words"), [(1, "a pod waits"), (3, "3 pods wait")])
    async def test_followers_that_have_no_leader_are_told_of(self, bench, pods, words):
        bench.add_waiting(*range(1, pods + 1))
        assert await bench.reconcile() == PATIENCE
        assert bench.events == [], "the Job controller may be making one"
        await asyncio.sleep(PATIENCE)
        assert await bench.reconcile() == TELL_EVERY
        await asyncio.sleep(1)
        assert await bench.reconcile() == TELL_EVERY - 1
        [(regarding, kind, reason, note)] = bench.events
        assert (regarding.name, kind, reason) == ("js", "Warning", REASON)
        assert note.startswith(f"{words} for the leader pod of Job {JOB}, which has none")

    async def test_each_lack_of_a_leader_gets_a_moment(self, bench):
        bench.feed()
        bench.add_waiting(1)
        await bench.until_idle()
        show(bench.watches.leaders, BOUND)
        await bench.until_idle()
        await asyncio.sleep(10 * PATIENCE)
        hide(bench.watches.leaders, BOUND)
        bench.add_waiting(2)
        await bench.until_idle()
        assert bench.events == []
        hide(bench.watches.followers, follower_of(index=2))
        await bench.until_idle()
        bench.add_waiting(3)
        await asyncio.sleep(10 * PATIENCE)
        await bench.until_idle()
        assert bench.events == []
        assert list(bench.reconciler._teller._lost) == [REQUEST.uid]

    async def test_nothing_is_remembered_of_jobs_that_waited_for_a_leader(self, bench):
        bench.feed()
        bench.add_job()
        bench.add_waiting(1)
        await bench.until_idle()
        hide(bench.watches.followers, follower_of(index=1))
        hide(bench.jobs, job_of())
        await bench.until_idle()
        assert bench.reconciler._teller._lost == {}

    async def test_jobsets_of_which_nothing_is_told_any_more_are_forgotten(self, bench):
        await asyncio.sleep(PATIENCE)
        for number in range(200):
            gone = leader_of(JOB, jobset_uid=f"u{number}")
            show(bench.watches.leaders, gone)
            await bench.reconcile()
            await asyncio.sleep(1)
        assert len(bench.events) == 200
        assert len(bench.reconciler._teller._told) <= TELL_EVERY + 1


async def test_results_are_what_the_queue_expects(bench):
    assert await bench.reconciler.reconcile(REQUEST) == Result()
    assert str(REQUEST) == "ns/js-w-0"
