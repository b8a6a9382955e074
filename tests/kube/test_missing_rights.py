"""A right that is taken away while the manager runs: the log names it and the remedy, and does not repeat it each time."""

import logging

import pytest

from kube.errors import Forbidden, Status, missing_right
from tests.kube.test_controller import KEY, run_for

pytestmark = pytest.mark.looptime
ROLES = "apply the manager's ClusterRoles again: kubectl apply --server-side --force-conflicts -k manifests/rbac"
RIGHT = "patch jobsets/status.jobset.x-k8s.io"


def refused(resource: str = "jobsets/status", group: str = "jobset.x-k8s.io") -> Forbidden:
    said = f'"a" is forbidden: User "u" cannot patch resource "{resource}" in API group "{group}" in the namespace "ns"'
    return Forbidden(403, Status(reason="Forbidden", message=said))


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.WARNING, logger="kube.controller")
    return lambda: [record.getMessage() for record in caplog.records]


async def test_it_is_said_once_a_minute_with_the_remedy_and_the_number_of_failures(lines):
    async def reconcile(_):
        raise refused()

    metrics = await run_for(200, reconcile)
    first, *later = lines()
    assert first.startswith(f"test {KEY}: failed, trying again: the manager may not {RIGHT}: {ROLES}: 403 Forbidden: ")
    assert len(later) <= 3 < metrics.reported.count("failed") - len(later)
    assert f"the manager may not {RIGHT}: {ROLES} (13 more failures since this was said): 403" in later[0]


async def test_each_right_is_said_and_what_else_is_wrong_every_time(lines):
    errors = [
        refused(),
        refused("pods", ""),
        ExceptionGroup("2 of 2 writes failed", [refused(), refused("pods", "")]),
        ExceptionGroup("2 of 2 writes failed", [refused(), Forbidden(403, Status(message="exceeded quota"))]),
        Forbidden(403, Status(message="exceeded quota")),
        Forbidden(403, Status(message="exceeded quota")),
    ]
    left = iter([*errors, refused()])

    async def reconcile(_):
        if error := next(left, None):
            raise error

    await run_for(10, reconcile)
    said = [line.partition("trying again: ")[2] for line in lines()]
    assert said[0].startswith(f"the manager may not {RIGHT}: {ROLES}: 403")
    assert said[1].startswith(f"the manager may not patch pods: {ROLES}: 403")
    assert said[2].startswith(f"the manager may not {RIGHT}, patch pods: {ROLES}: 2 of 2 writes failed, first: ")
    assert said[3].startswith("2 of 2 writes failed, first: ")
    assert said[4:] == ["403: exceeded quota"] * 2


def test_other_words_name_no_right():
    assert missing_right(Forbidden(403, Status(message="exceeded quota"))) == ""
