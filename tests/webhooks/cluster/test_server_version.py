"""A set whose agent an older API server cannot run: admission says which version it needs."""

import msgspec
import pytest

from kube.transport import Response
from tests.support.model.scripted_server import Script, create, warnings
from tests.support.objects.jobsets import JSON, jobset, rjob

pytestmark = pytest.mark.looptime

AGENT = "spec.failurePolicy.agent"
SIDECAR = (
    f"{AGENT}.mode: mode Sidecar needs Kubernetes 1.36 or newer, and the API server is 1.33; set mode: MainContainer"
)
VOLUME = (
    f"{AGENT}.imageVolume: imageVolume needs Kubernetes 1.35 or newer, and the API server is 1.34; remove the field"
)


def answering(minor: str) -> Script:
    body = msgspec.json.encode({"major": "1", "minor": minor})
    return Script({"get version": lambda _: Response(200, {}, body)})


def restarted_in_place(mode: str, *, volume: bool = False) -> JSON:
    agent = {"image": "agent", "mode": mode, "imageVolume": volume}
    return jobset(
        rjob(pod={"restartPolicy": "OnFailure"}),
        failurePolicy={"restartStrategy": "InPlaceRestart", "maxRestarts": 1, "agent": agent},
    )


async def about_agent(server: Script, js: JSON) -> list[str]:
    return [text for text in warnings(await create(server, js)) if text.startswith(AGENT)]


@pytest.mark.parametrize(
    ("mode", "volume", "minor", "said"),
    [
        ("Sidecar", False, "33", [SIDECAR]),
        ("Sidecar", True, "36", []),
        ("Sidecar", False, "", []),
        ("MainContainer", True, "34", [VOLUME]),
        ("MainContainer", True, "35", []),
    ],
)
async def test_an_agent_on_an_older_api_server(mode: str, volume: bool, minor: str, said: list[str]):
    assert await about_agent(answering(minor), restarted_in_place(mode, volume=volume)) == said


async def test_other_sets_do_not_ask_for_the_version():
    for js in (restarted_in_place("MainContainer"), jobset(rjob())):
        server = answering("33")
        assert await about_agent(server, js) == []
        assert "get version" not in server.asked()
