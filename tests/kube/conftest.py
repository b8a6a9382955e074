"""Quiet logs, and no event loop that nobody closes."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

# looptime's plugin asks the policy for a loop even around a synchronous test; if none was ever set, the policy makes one
# that is never closed, and some later test fails with a ResourceWarning.
asyncio.set_event_loop(None)


@pytest.fixture(autouse=True, scope="package")
def _quiet() -> Iterator[None]:
    """Property tests cause thousands of expected warnings; formatting them for reports would be most of their time."""
    logger = logging.getLogger("kube")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)
