"""What pods need by name is looked for on a real API server, with the manager's rights."""

from __future__ import annotations

from api.keys import EXCLUSIVE_TOPOLOGY
from kube.resources import NODES, PRIORITY_CLASSES
from tests.support.dry_run import POD, administrator, ask_about, pod
from tests.support.jobsets import jobset, rjob


async def test_a_missing_class_and_a_missing_label_are_reported_until_they_exist(server, manager, ns):
    rack = f"example.com/{ns}"
    js = jobset(rjob(pod=pod(priorityClassName=ns)), namespace=ns)
    js["metadata"]["annotations"] = {EXCLUSIVE_TOPOLOGY: rack}
    assert {str(found.path): found.detail for found in await ask_about(manager, js)} == {
        f"metadata.annotations[{EXCLUSIVE_TOPOLOGY}]": f"no node has the label {rack}: pods wait for one",
        f"{POD}.priorityClassName": f"no PriorityClass {ns}: no pod runs",
    }
    async with administrator(server) as client:
        await client.create(PRIORITY_CLASSES, {"metadata": {"name": ns}, "value": 1})
        await client.create(NODES, {"metadata": {"name": ns, "labels": {rack: "a"}}})
        try:
            assert await ask_about(manager, js) == []
        finally:
            await client.delete(PRIORITY_CLASSES, ns)
            await client.delete(NODES, ns)
