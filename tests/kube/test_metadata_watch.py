"""Where nothing but metadata is wanted, nothing else is asked for: in pages, in a streaming list, in a watch, in a patch.

That the real API server sends no more is in tests/integration/test_placement_watch.py.
"""

import asyncio

import pytest

from kube.client import Client, PatchType
from kube.informer import Informer
from kube.options import METADATA, METADATA_LIST
from kube.transport import Request
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.kube_objects import THINGS, Thing

pytestmark = pytest.mark.looptime

WHOLE = "application/json"


def accepted(requests: list[Request]) -> list[tuple[str, str]]:
    return [(request.verb, request.accept) for request in requests]


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("metadata_only", [True, False])
async def test_every_request_of_a_watch_asks_for_it(streaming, metadata_only):
    page, event = (METADATA_LIST, METADATA) if metadata_only else (WHOLE, WHOLE)

    api = MemoryApi()
    api.put("things", "a", size=1)
    informer = Informer(Client(api), THINGS, Thing, metadata_only=metadata_only, streaming=streaming)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.wait_synced(20)
        await asyncio.sleep(1)
        api.cut_streams()
        await asyncio.sleep(5)
        api.touch()
        api.compact()
        api.cut_streams()
        await asyncio.sleep(5)
        task.cancel()
    first = [] if streaming else [("list", page)]
    # The first break is resumed from; then what it would resume from is gone, and all is listed again.
    again = [("watch", event), *first, ("watch", event)]
    assert accepted(api.requests) == [*first, ("watch", event), *again]


async def test_an_old_server_without_streaming_lists_is_asked_for_metadata_too():
    api = MemoryApi(streaming=False)
    informer = Informer(Client(api), THINGS, Thing, metadata_only=True)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.wait_synced(20)
        task.cancel()
    assert accepted(api.requests)[:2] == [("watch", METADATA), ("list", METADATA_LIST)]


@pytest.mark.parametrize("accept", [None, METADATA])
async def test_the_answer_to_a_write_comes_in_the_form_asked_for(accept):
    api = MemoryApi()
    api.put("things", "a", size=1)
    client = Client(api)
    options = {} if accept is None else {"accept": accept}
    await client.patch(THINGS, "a", {"size": 2}, namespace="ns", patch_type=PatchType.MERGE, **options)
    await client.list(THINGS, namespace="ns")
    assert accepted(api.requests) == [("patch", accept or WHOLE), ("list", WHOLE)]
