"""What the log says about a lease that cannot be taken."""

import asyncio
import logging

import pytest

from tests.kube.test_leader import elector, forever, spec
from tests.support.model.memory_api import MemoryApi, refuse, serve

pytestmark = pytest.mark.looptime


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kube.leader")


@pytest.mark.parametrize(
    ("verb", "code", "cause", "advice"),
    [
        ("get", 403, "", "needs the rights to get, create and patch leases in namespace ns: apply its Role"),
        ("create", 403, "", "needs the rights to get, create and patch leases in namespace ns: apply its Role"),
        ("create", 404, "", "namespace ns has to exist: create it, or name another one for the lease"),
        ("create", 403, "NamespaceTerminating", "without it nothing is reconciled: create /apis/coordination"),
    ],
)
@pytest.mark.usefixtures("heard")
async def test_what_keeps_a_process_from_leading_is_said_once_a_minute(
    caplog, verb: str, code: int, cause: str, advice: str
):
    api = MemoryApi(answering=refuse(code, "not so", verb=verb, details={"causes": [{"reason": cause}]}))
    task = asyncio.create_task(elector(api).lead(forever))
    await asyncio.sleep(125)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3, lines
    assert all("not so" in line and advice in line for line in lines)
    assert all(("apply its Role" in line) == ("apply its Role" in advice) for line in lines)
    api.answering = serve
    await asyncio.sleep(5)
    assert spec(api)["holderIdentity"] == "one"
    task.cancel()


@pytest.mark.usefixtures("heard")
async def test_a_process_that_waits_for_the_lease_says_once_who_holds_it(caplog):
    def held_by(name: str) -> dict[str, object]:
        return {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2001-01-01T00:00:00.000000Z"}

    def lines() -> list[str]:
        return [record.getMessage() for record in caplog.records]

    api = MemoryApi()
    api.put("leases", "lock", spec=held_by("other"))
    task = asyncio.create_task(elector(api).lead(forever))
    await asyncio.sleep(20)
    assert lines() == ["other holds the lease ns/lock: one waits until it is free"]
    api.put("leases", "lock", spec=held_by("third"))
    await asyncio.sleep(20)
    assert lines()[1:] == ["third holds the lease ns/lock: one waits until it is free"]
    await asyncio.sleep(40)
    assert lines()[2:] == ["one leads (lease ns/lock)"]
    task.cancel()
