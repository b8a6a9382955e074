"""A set whose agent an older API server cannot run: admission says which version it needs."""

import msgspec
import pytest

from kube.transport import Response
from tests.support.model.scripted_server import Script, create, warnings
from tests.support.objects.jobsets import JSON, jobset, rjob

pytestmark = pytest.mark.looptime

PLACE = "spec.failurePolicy.agent.mode"
SAID = "mode Sidecar needs Kubernetes 1.36 or newer, and the API server is 1.33; set mode: MainContainer"


def answering(minor: str) -> Script:
    body = msgspec.json.encode({"major": "1", "minor": minor})
    return Script({"get version": lambda _: Response(200, {}, body)})


def restarted_in_place(mode: str = "Sidecar") -> JSON:
    agent = {"image": "agent", "mode": mode}
    return jobset(
        rjob(pod={"restartPolicy": "OnFailure"}),
        failurePolicy={"restartStrategy": "InPlaceRestart", "maxRestarts": 1, "agent": agent},
    )


async def about_mode(server: Script, js: JSON) -> list[str]:
    texts = (text.removeprefix(f"{PLACE}: ") for text in warnings(await create(server, js)) if text.startswith(PLACE))
    return list(texts)


@pytest.mark.parametrize(("minor", "said"), [("33", [SAID]), ("36", []), ("", [])])
async def test_a_sidecar_agent_on_an_older_api_server(minor: str, said: list[str]):
    assert await about_mode(answering(minor), restarted_in_place()) == said


async def test_other_sets_do_not_ask_for_the_version():
    for js in (restarted_in_place("MainContainer"), jobset(rjob())):
        server = answering("33")
        assert await about_mode(server, js) == []
        assert "get version" not in server.asked()
