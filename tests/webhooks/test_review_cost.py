"""What one review may cost: counted, for times depend on the machine."""

from typing import Any

import pytest

from api.field import MAX_SHOWN_ERRORS
from api.suggest import MAX_CANDIDATES, Comparison
from app.engine import engine
from tests.support.jobsets import JSON, jobset, rjob, stored
from tests.support.reviews import encode, review
from tests.support.scripted_server import GATES, Script, create, refusal
from webhooks.jobset.answers import answer
from webhooks.jobset.engine import Findings
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH, jobset_handlers
from webhooks.review import AdmissionResponse, decode_review

HANDLERS = jobset_handlers(engine(GATES))
LARGE = 54 * 1024


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names with which an unknown one has been compared."""
    names: list[str] = []
    likeness = Comparison.likeness

    def counted(self: Comparison, name: str) -> float:
        names.append(name)
        return likeness(self, name)

    monkeypatch.setattr(Comparison, "likeness", counted)
    return names


def unknown(count: int) -> list[str]:
    return [f"aaaaaaaaaaaaaaaaaaaa-{i}" for i in range(count)]


def known(**fields: Any) -> list[JSON]:
    return [rjob(f"aaaaaaaaaaaaaaaaaaaa-b{i}", **fields) for i in range(100)]


MANY = {
    "targets of the success policy": jobset(
        *known(), successPolicy={"operator": "All", "targetReplicatedJobs": unknown(1500)}
    ),
    "targets of the failure policy": jobset(
        *known(),
        failurePolicy={
            "rules": [{"name": f"r{i}", "action": "FailJobSet", "targetReplicatedJobs": unknown(15)} for i in range(80)]
        },
    ),
    "dependsOn": jobset(
        *known(), *(rjob(f"x{i}", dependsOn=[{"name": n, "status": "Ready"} for n in unknown(5)]) for i in range(90))
    ),
    "reasons": jobset(
        rjob(), failurePolicy={"rules": [{"name": "r", "action": "FailJobSet", "onJobFailureReasons": unknown(2000)}]}
    ),
    "words that the schema does not know": jobset(
        rjob("a"),
        *(rjob(f"x{i}", dependsOn=[{"name": f"n{k}", "status": "Reedy"} for k in range(5)]) for i in range(140)),
    ),
}


@pytest.mark.parametrize("path", [MUTATE_PATH, VALIDATE_PATH])
@pytest.mark.parametrize("case", MANY)
def test_only_names_of_findings_that_are_shown_are_compared(case: str, path: str, compared: list[str]):
    body = encode(review(stored(MANY[case])))
    assert len(body) > LARGE * 0.8
    response = HANDLERS[path](decode_review(body).request)
    assert isinstance(response, AdmissionResponse)
    assert len(compared) <= MAX_SHOWN_ERRORS * MAX_CANDIDATES
    if not response.allowed:
        assert len(response.status["details"]["causes"]) == MAX_SHOWN_ERRORS + 1


@pytest.mark.looptime
async def test_faults_that_the_api_server_finds_are_no_exception(compared: list[str]):
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in unknown(500)]
    volumes = [{"name": f"aaaaaaaaaaaaaaaaaaaa-v{i}", "emptyDir": {}} for i in range(100)]
    place = "spec.template.spec.containers[0].volumeMounts[{}].name"
    faults = refusal(
        *((place.format(i), "FieldValueNotFound", f'Not found: "{m["name"]}"') for i, m in enumerate(mounts))
    )
    pod = {"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}], "volumes": volumes}
    js = jobset(rjob(pod=pod))
    found = await create(Script({"create jobs": faults}), js)
    assert (len(found), compared) == (500, [])
    response = answer(Findings(tuple(found), (), js), js)
    assert 'did you mean "aaaaaaaaaaaaaaaaaaaa-v0"?' in response.status["message"]
    assert 0 < len(compared) <= MAX_SHOWN_ERRORS * MAX_CANDIDATES
