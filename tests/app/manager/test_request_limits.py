"""Which limits the requests of reviews wait for."""

import asyncio

from api.features import FeatureGates
from app.manager.admission import _webhook_app
from app.manager.options import Deps, Options
from app.manager.supervisor import Supervisor, supervise
from app.metrics import Metrics
from app.settings import Settings
from controllers.placement.watches import PlacementWatches
from kube.client import Client
from tests.support.asgi import post
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.objects.reviews import answer, encode, review
from webhooks.jobset.handlers import VALIDATE_PATH


async def test_reviews_have_limits_of_their_own_beside_what_is_reconciled():
    api, metrics, settings = MemoryApi(), Metrics(), Settings().override("exclusive_placement", terms="LabelKeys")
    api, metrics, settings = MemoryApi(), Metrics(), Settings().override("exclusive_placement", terms="LabelKeys")
    client = Client(api)

    async def stage(supervisor: Supervisor) -> None:
        deps = Deps(Options(settings, FeatureGates()), client, metrics, supervisor)
        app = await _webhook_app(deps, PlacementWatches(client), metrics.webhooks, None)
        api.requests.clear()
        reviewed = await post(app, VALIDATE_PATH, encode(review(stored(jobset(rjob())))))
        assert answer(reviewed.body)["uid"] == "u1"

    await supervise(stage, asyncio.Event())
    limits = {request.limits for request in api.requests}
    assert len(limits) == 1, "all reviews of this process share them"
    assert None not in limits
