"""Quiet logs, and no event loop that nobody closes."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    """Property tests cause thousands of expected warnings; formatting them for reports would be most of their time."""
    logger = logging.getLogger("kube")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)
