"""The application that serves the webhooks of JobSets, without a cluster, and a review that it allows."""

from typing import Any

from api.features import FeatureGates
from app.engine import engine
from tests.support.asgi import post
from tests.support.objects.jobsets import jobset, stored
from tests.support.objects.reviews import answer, encode, review
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH, jobset_handlers
from webhooks.router import create_app

APP = create_app(jobset_handlers(engine(FeatureGates())))
PATHS = [MUTATE_PATH, VALIDATE_PATH]
GOOD = encode(review(stored(jobset())))


async def ask(body: Any, path: str = VALIDATE_PATH, app: Any = APP, **headers: str) -> dict[str, Any]:
    """The response of the review that is the answer."""
    http = await post(app, path, body if isinstance(body, bytes) else encode(body), **headers)
    assert http.status == 200
    assert http.headers["content-type"] == "application/json"
    return answer(http.body)
