"""Which reports are written, changed and deleted, and what is left alone."""

from datetime import UTC, datetime

import pytest

from controllers.policy.reports import PolicyReports
from kube.client import Client
from policy.audit import Audit
from policy.judged import Namespace
from policy.types import JobSetPolicy
from tests.support.model.memory_api import MemoryApi, refuse
from tests.support.objects.jobsets import rjob
from tests.support.objects.policies import judged, policy

AT = datetime(2030, 1, 1, tzinfo=UTC)
LIMITS = policy("limits", maxJobs={"max": 1})


class Cluster(MemoryApi):
    """With the CRD of reports, unless the test says otherwise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.served["openreports.io/v1alpha1"] = ("reports",)

    async def written(self, *found: tuple[str, str], policies: tuple[JobSetPolicy, ...] = (LIMITS,)) -> list[str]:
        """Audit large JobSets of these namespaces and names; gives the writes."""
        audit = Audit(policies, reports=True)
        for namespace, name in found:
            js = judged(rjob(replicas=9), metadata={"name": name, "namespace": namespace})
            audit.add(js, Namespace(namespace), (), AT)
        self.requests.clear()
        await PolicyReports(Client(self)).write(audit)
        return [request.verb for request in self.requests if request.method != "GET"]

    @property
    def stored(self) -> dict[tuple[str, str], int]:
        """The number of results of each report."""
        return {key: len(body.get("results", ())) for key, body in self.objects("reports").items()}


async def test_one_for_each_namespace_and_policy_and_only_changes_are_written():
    cluster = Cluster()
    both = (LIMITS, policy("queues", ("Warn",), requiredQueue={}))
    found = [("team-a", "one"), ("team-a", "two"), ("team-b", "one")]
    assert await cluster.written(*found, policies=both) == ["create"] * 4
    assert cluster.stored == {
        ("team-a", "jobset-limits"): 2,
        ("team-a", "jobset-queues"): 2,
        ("team-b", "jobset-limits"): 1,
        ("team-b", "jobset-queues"): 1,
    }
    assert await cluster.written(*found, policies=both) == []
    assert [call.verb for call in cluster.requests] == ["get", "list"], "discovery, and one list, of metadata"
    assert await cluster.written(*found[1:]) == ["patch", "delete", "delete"]
    assert cluster.stored == {("team-a", "jobset-limits"): 1, ("team-b", "jobset-limits"): 1}
    assert await cluster.written() == ["delete", "delete"]
    assert cluster.stored == {}


async def test_without_the_crd_nothing_is_written():
    cluster = Cluster()
    cluster.served.clear()
    assert await cluster.written(("team-a", "one")) == []


async def test_reports_of_others_stay():
    cluster = Cluster()
    cluster.put("reports", "jobset-limits", "team-a", results=[])
    cluster.put("reports", "theirs", "team-a", results=[])
    await cluster.written(("team-a", "one"))
    await cluster.written()
    assert cluster.stored == {("team-a", "jobset-limits"): 0, ("team-a", "theirs"): 0}


async def test_a_namespace_that_takes_no_report_keeps_no_other_from_getting_one(caplog: pytest.LogCaptureFixture):
    cluster = Cluster()
    cluster.answering = refuse(403, verb="create", path="/namespaces/team-a/reports")
    await cluster.written(("team-a", "one"), ("team-b", "one"))
    assert cluster.stored == {("team-b", "jobset-limits"): 1}
    assert "not written" not in caplog.text
