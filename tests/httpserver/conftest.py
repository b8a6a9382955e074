"""Each test of the server runs on the loops that the manager may have: `app.manager.process.loop_factory`."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The standard loop, and uvloop but for tests whose time is virtual."""
    if item.get_closest_marker("looptime"):
        return {"asyncio": asyncio.new_event_loop}
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
