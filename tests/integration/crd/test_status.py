"""The status of JobSets on a real API server: what is stored, refused and shown in columns."""

import pytest

from tests.support.cluster.crd_calls import TOO_MANY, spec
from tests.support.cluster.requests import MERGE, kubectl, request

CONDITION = {
    "type": "Completed",
    "status": "True",
    "reason": "AllJobsCompleted",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
COUNTS = {"name": "w", "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}


def patch_status(sender, status):
    return request(sender.server, "PATCH", f"{sender.path}/status", {"status": status}, MERGE)


def test_status_is_a_subresource_and_keeps_zeros(jobset):
    assert "status" not in jobset.stored(spec(), status={"restarts": 3})
    given = {
        "conditions": [CONDITION | {"observedGeneration": 1}],
        "restarts": 0,
        "restartsCountTowardsMax": 0,
        "terminalState": "Completed",
        "replicatedJobsStatus": [
            COUNTS | {"jobRestarts": [0, 2], "jobRestartsCountTowardsMax": [0, 1], "released": False, "remaining": 0}
        ],
        "currentStage": "w (1/2)",
        "failurePolicyRestarts": [{"name": "r", "restarts": 0}],
        "previousInPlaceRestartAttempt": 0,
        "currentInPlaceRestartAttempt": 1,
    }
    status, answer = patch_status(jobset, given)
    assert status == 200, answer
    assert answer["status"] == given


@pytest.mark.parametrize(
    ("status", "field", "message"),
    [
        *(({"replicatedJobsStatus": [{k: v for k, v in COUNTS.items() if k != name}]},
           f"status.replicatedJobsStatus[0].{name}", "Required value") for name in COUNTS if name != "name"),
        *(({"conditions": [{k: v for k, v in CONDITION.items() if k != name}]},
           f"status.conditions[0].{name}", "Required value") for name in CONDITION if name != "type"),
        ({"conditions": [CONDITION | {"status": "Yes"}]}, "status.conditions[0].status",
         'Unsupported value: "Yes": supported values: "True", "False", "Unknown"'),
        ({"currentInPlaceRestartAttempt": -1}, "status.currentInPlaceRestartAttempt",
         "Invalid value: -1: currentInPlaceRestartAttempt in body should be greater than or equal to 0"),
        ({"replicatedJobsStatus": [COUNTS | {"jobRestarts": [0] * 1025}]}, "status.replicatedJobsStatus[0].jobRestarts",
         TOO_MANY.format(1025, 1024)),
    ],
)  # fmt: skip
def test_status_refused(jobset, status, field, message):
    jobset.stored(spec())
    code, answer = patch_status(jobset, status)
    assert code == 422
    causes = [(c["field"], c["message"]) for c in answer["details"]["causes"] if "not checked" not in c["message"]]
    assert causes == [(field, message)]


def test_columns_of_get(server, jobset):
    jobset.stored(spec(suspend=False))
    status = {"restarts": 2, "terminalState": "Completed", "readyJobs": "2/4", "currentStage": "trainer (2/3)"}
    assert patch_status(jobset, status | {"conditions": [CONDITION]})[0] == 200
    header, row = kubectl(server, "get", "jobsets", jobset.name, namespace="default").splitlines()
    assert header.split() == ["NAME", "TERMINALSTATE", "RESTARTS", "COMPLETED", "SUSPENDED", "AGE", "READY", "STAGE"]
    assert row.split()[:5] == [jobset.name, "Completed", "2", "True", "false"]
    assert row.endswith("   2/4     trainer (2/3)")
