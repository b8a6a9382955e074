"""The fast path of a webhook and its ASGI application give the same answer to the same body, byte by byte."""

import pytest

from tests.support.asgi import post
from tests.webhooks.test_abuse import JUDGED, REFUSED
from tests.webhooks.test_router import ABUSE, APP, GOOD, PATHS

BODIES = {**ABUSE, **REFUSED, **JUDGED, "good": GOOD}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", BODIES)
async def test_both_give_the_same_answer(case: str, path: str):
    assert APP.fast_paths[path.encode()](BODIES[case]) == (await post(APP, path, BODIES[case])).body
