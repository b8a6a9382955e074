"""The Event recorder: one Event with a series, never in the way."""

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.client import Client
from kube.events import NOTE_LIMIT, QUEUE_LIMIT, EventRecorder, Reference, truncate
from tests.support.beside import beside
from tests.support.model.faults import Answer, FaultyTransport, LostAnswer, Refused, SlowAnswer
from tests.support.model.memory_api import MemoryApi, refuse

pytestmark = pytest.mark.looptime


def about(version: int = 1, name: str = "train") -> Reference:
    return Reference(
        api_version="v1", kind="Thing", name=name, namespace="ns", uid="uid-1", resource_version=str(version)
    )


def recorder(transport) -> EventRecorder:
    return EventRecorder(Client(transport), reporting_controller="jobset", reporting_instance="jobset-host")


def stored(api: MemoryApi) -> list[dict]:
    return list(api.objects("events").values())


async def test_an_event_names_its_object_reason_and_reporter():
    api = MemoryApi()
    events = recorder(api)
    async with beside(events.run()):
        events.record(about(7), "Warning", "JobCreationFailed", 'job "a" failed with 100%s')
        await asyncio.sleep(1)
    [event] = stored(api)
    name = event["metadata"]["name"]
    assert name.startswith("train.")
    assert int(name.removeprefix("train."), 16) > 0
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "Thing",
        "name": "train",
        "namespace": "ns",
        "uid": "uid-1",
        "resourceVersion": "7",
    }
    assert event["note"] == 'job "a" failed with 100%s', "the note is text, not a format"
    assert (event["type"], event["reason"], event["action"]) == ("Warning", "JobCreationFailed", "Reconciling")
    assert (event["reportingController"], event["reportingInstance"]) == ("jobset", "jobset-host")
    assert "series" not in event


async def test_repeated_trouble_on_a_changing_object_is_one_event_with_a_series():
    api = MemoryApi()
    events = recorder(api)
    async with beside(events.run()):
        for attempt in range(5):
            events.record(about(attempt), "Warning", "JobCreationFailed", f"attempt {attempt}")
            await asyncio.sleep(10)
        [event] = stored(api)
        assert event["series"]["count"] == 2, "the second is written at once, later ones are saved up"
        await asyncio.sleep(400)
        [event] = stored(api)
        assert event["series"]["count"] == 5, "the end of the series is written"


async def test_a_long_series_is_written_every_half_hour():
    api = MemoryApi()
    events = recorder(api)
    async with beside(events.run()):
        for _ in range(40):
            events.record(about(), "Warning", "R", "n")
            await asyncio.sleep(60)
        [event] = stored(api)
        assert 30 <= event["series"]["count"] <= 32
        assert api.revision == 3, "create, second occurrence, half hour"


async def test_another_reason_type_object_or_a_later_time_makes_another_event():
    api = MemoryApi()
    events = recorder(api)
    async with beside(events.run()):
        events.record(about(), "Warning", "A", "n")
        events.record(about(), "Normal", "A", "n")
        events.record(about(), "Warning", "B", "n")
        events.record(about(name="other"), "Warning", "A", "n")
        await asyncio.sleep(1)
        assert len(stored(api)) == 4
        await asyncio.sleep(400)
        events.record(about(), "Warning", "A", "n")
        await asyncio.sleep(1)
    assert len(stored(api)) == 5


async def test_a_distinct_note_is_another_event_and_the_same_one_is_not():
    api = MemoryApi()
    recorder = EventRecorder(Client(api), reporting_controller="jobset", reporting_instance="x")
    for note in ("job 'a' is a stray", "job 'b' is a stray", "job 'b' is a stray"):
        recorder.record(about(), "Warning", "StrayJob", note, distinct=True)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(recorder.run())
        await recorder.flush(5)
        task.cancel()
    reported = {event["note"]: event.get("series", {}).get("count", 1) for event in api.objects("events").values()}
    assert reported == {"job 'a' is a stray": 1, "job 'b' is a stray": 2}


async def test_an_unreachable_server_is_tried_for_two_minutes():
    api = MemoryApi()
    transport = FaultyTransport(api)
    events = recorder(transport)
    async with beside(events.run()):
        rule = transport.inject(Refused(), times=1000)
        events.record(about(), "Normal", "A", "n")
        await asyncio.sleep(110)
        assert stored(api) == []
        rule.times = 0
        await asyncio.sleep(15)
        assert len(stored(api)) == 1
    assert events.dropped == 0


async def test_a_refused_event_is_dropped_counted_and_not_tried_again():
    api = MemoryApi()
    transport = FaultyTransport(api)
    events = recorder(transport)
    async with beside(events.run()):
        transport.inject(Answer(403))
        events.record(about(), "Normal", "A", "n")
        await asyncio.sleep(200)
    assert (events.dropped, len(transport.writes())) == (1, 1)


async def test_an_event_is_tried_again_after_a_minute_if_a_proxy_asks_for_hours():
    api = MemoryApi()
    transport = FaultyTransport(api)
    events = recorder(transport)
    async with beside(events.run()):
        transport.inject(Answer(429, retry_after=86400))
        events.record(about(), "Normal", "A", "n")
        await asyncio.sleep(59)
        assert stored(api) == []
        await asyncio.sleep(2)
        assert len(stored(api)) == 1


async def test_an_event_in_a_namespace_that_is_being_deleted_is_dropped_without_a_warning(caplog):
    caplog.set_level(logging.DEBUG, "kube.events")
    events = recorder(MemoryApi(answering=refuse(403, details={"causes": [{"reason": "NamespaceTerminating"}]})))
    async with beside(events.run()):
        events.record(about(), "Normal", "A", "n")
        await asyncio.sleep(1)
    assert events.dropped == 1
    assert [record.levelname for record in caplog.records] == ["DEBUG"]


async def test_a_create_whose_answer_was_lost_is_not_made_twice():
    api = MemoryApi()
    transport = FaultyTransport(api)
    transport.inject(LostAnswer(), verb="create")
    events = recorder(transport)
    async with beside(events.run()):
        events.record(about(), "Normal", "A", "n")
        events.record(about(), "Normal", "A", "n")
        await asyncio.sleep(100)
    [event] = stored(api)
    assert event["series"]["count"] == 2
    assert events.dropped == 0


async def test_a_second_occurrence_while_the_first_is_being_written_is_written_too():
    api = MemoryApi()
    transport = FaultyTransport(api)
    for fault in (SlowAnswer(5), LostAnswer()):
        transport.inject(fault, verb="create")
        events = recorder(transport)
        async with beside(events.run()):
            events.record(about(), "Normal", type(fault).__name__, "n")
            await asyncio.sleep(1)
            events.record(about(), "Normal", type(fault).__name__, "n")
            await asyncio.sleep(100)
        [event] = [event for event in stored(api) if event["reason"] == type(fault).__name__]
        assert event["series"]["count"] == 2


async def test_an_event_the_server_has_forgotten_is_created_again():
    api = MemoryApi()
    events = recorder(api)
    async with beside(events.run()):
        events.record(about(), "Normal", "A", "n")
        await asyncio.sleep(1)
        [event] = stored(api)
        api.drop("events", event["metadata"]["name"])
        events.record(about(), "Normal", "A", "n")
        await asyncio.sleep(1)
        [event] = stored(api)
        assert event["series"]["count"] == 2


async def test_a_full_queue_drops_and_counts_and_never_blocks():
    events = recorder(MemoryApi())
    for number in range(QUEUE_LIMIT + 7):
        events.record(about(name=f"t{number}"), "Normal", "A", "n")
    assert events.dropped == 7


async def test_a_clean_stop_writes_what_waits_and_open_counts_within_its_time():
    api = MemoryApi()
    events = recorder(api)
    async with beside(events.run()):
        for _ in range(9):
            events.record(about(), "Normal", "A", "n")
            await asyncio.sleep(1)
        await events.flush(5)
        assert stored(api)[0]["series"]["count"] == 9
    stuck = recorder(FaultyTransport(api, choose=lambda _: Refused()))
    async with beside(stuck.run()):
        stuck.record(about(), "Normal", "B", "n")
        start = asyncio.get_running_loop().time()
        await stuck.flush(5)
        assert asyncio.get_running_loop().time() - start == pytest.approx(5)


@given(st.text())
def test_notes_fit_in_bytes_and_are_cut_between_characters(text):
    cut = truncate(text * 50)
    assert len(cut.encode()) <= NOTE_LIMIT
    if len((text * 50).encode()) <= NOTE_LIMIT:
        assert cut == text * 50
    else:
        assert cut.endswith("…")
        assert (text * 50).startswith(cut[:-1])
        assert len(cut.encode()) > NOTE_LIMIT - 4
