"""What one review may cost: counted, for times depend on the machine."""

from typing import Any

import pytest

from app.engine import engine
from kube.model.field import MAX_SHOWN_ERRORS
from kube.model.suggest import MAX_CANDIDATES, Comparison
from policy.types import read_policy
from tests.support.model.scripted_server import GATES, Script, create, refusal
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.policies import manifest
from tests.support.objects.reviews import encode, review
from tests.support.webhook_app import ask
from tests.support.work import steps
from tests.webhooks.test_policies import Played
from webhooks import body, offload
from webhooks.jobset import policies
from webhooks.jobset.answers import jobset_answer
from webhooks.jobset.engine import Findings
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH, jobset_handlers
from webhooks.offload import CostlyReview, Turns, costly_review
from webhooks.review import MAX_BODY, MAX_FIELDS, AdmissionResponse, decode_review
from webhooks.router import create_app
from webhooks.work import MAX_STEPS, TooMuchWorkError, Work

MANY_ITEMS = [{}] * 300_000
TOO_MANY = {
    "dependsOn": jobset(rjob("a"), rjob("b", dependsOn=MANY_ITEMS)),
    "volumeClaimPolicies": jobset(volumeClaimPolicies=MANY_ITEMS),
    "templates": jobset(volumeClaimPolicies=[{"templates": MANY_ITEMS}]),
    "exitCodePolicy": jobset(rjob(exitCodePolicy={"permanent": list(range(300_000))})),
}
"""Lists that the schema bounds."""

UNBOUNDED = {
    "replicatedJobs": jobset(*MANY_ITEMS),
    "rules": jobset(failurePolicy={"rules": MANY_ITEMS}),
}

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


IN_THE_POD: dict[str, JSON] = {
    "hostNetwork": {"hostNetwork": True},
    "setHostnameAsFQDN": {"setHostnameAsFQDN": True},
    "subdomain": {"subdomain": "other"},
    "KAI Scheduler": {"schedulerName": "kai-scheduler"},
    "OnFailure": {"restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 600},
    "own numbers": {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}] * 9}},
        "nodeSelector": {"cloud.google.com/gke-tpu-topology": "4x4"},
        "containers": [{"name": "c", "image": "b", "restartPolicy": "Always"}],
    },
    "programs": {
        "containers": [
            {
                "name": "c",
                "image": "b",
                "command": ["torchrun", "--nnodes=9", "$RANK", "$(NAME)", "--addr", "js-x-0-0:1", "js-x-0-9.js"],
                "env": [
                    {"name": "PET_NNODES", "value": "7"},
                    {"name": "PROGRESS_DEADLINE_SECONDS"},
                    {"name": "A", "value": "$(JOB_COMPLETION_INDEX)"},
                ],
            }
        ]
    },
}


IN_PLACE: JSON = {"restartStrategy": "InPlaceRestart", "agent": {"image": "a"}}


@pytest.mark.parametrize(("replicas", "policy"), [(0, {}), (1, {}), (1, IN_PLACE)])
@pytest.mark.parametrize("field", IN_THE_POD)
def test_checks_of_a_group_cost_the_same_however_many_groups_there_are(field: str, replicas: int, policy: JSON):
    """A check of one group that reads all others costs their square. Four times the groups cost less than that."""

    def check(count: int) -> int:
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "b"}]} | IN_THE_POD[field]
        groups = [rjob(f"g{i}", replicas=replicas, pod=pod, job={"backoffLimit": 3}) for i in range(count)]
        js = stored(jobset(*groups, failurePolicy={"maxRestarts": 3} | policy))
        return steps(lambda: engine(GATES).findings_about_new(js))

    engine(GATES).findings_about_new(stored(jobset(rjob())))
    assert check(400) < 4 * check(100)


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
    response = jobset_answer(Findings(tuple(found), (), js), js)
    assert 'did you mean "aaaaaaaaaaaaaaaaaaaa-v0"?' in response.status["message"]
    assert 0 < len(compared) <= MAX_SHOWN_ERRORS * MAX_CANDIDATES


def taken(body: bytes, path: str, given: int = MAX_STEPS) -> tuple[AdmissionResponse | None, float]:
    """The answer, None where there were too few steps, and the steps that were taken."""
    review = CostlyReview(Turns(), 1)
    token = costly_review.set(review)
    try:
        response = HANDLERS[path](decode_review(body).request)
    except TooMuchWorkError:
        return None, given - review.work.steps_left
    finally:
        costly_review.reset(token)
    assert isinstance(response, AdmissionResponse)
    return response, given - review.work.steps_left


@pytest.mark.parametrize("path", [MUTATE_PATH, VALIDATE_PATH])
@pytest.mark.parametrize("case", TOO_MANY)
def test_a_list_with_too_many_items_is_looked_at_up_to_its_limit(case: str, path: str):
    response, steps = taken(encode(review(TOO_MANY[case])), path)
    assert response is not None
    assert "those after the first" in response.status["message"]
    assert steps < MAX_STEPS / 100


def test_a_list_that_is_stored_with_too_many_items_stays_as_it_is():
    depends = [{"name": "a", "status": "Ready"}, *({"name": f"a{i}", "status": "Ready"} for i in range(5))]
    old = stored(jobset(rjob("a"), *(rjob(f"a{i}") for i in range(5)), rjob("b", dependsOn=depends)))
    changed = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    for path in (MUTATE_PATH, VALIDATE_PATH):
        response, _ = taken(encode(review(changed, old)), path)
        assert response is not None
        assert response.allowed, response.status


@pytest.mark.parametrize("case", UNBOUNDED)
def test_defaults_end_with_the_steps(case: str, monkeypatch: pytest.MonkeyPatch):
    few = MAX_STEPS // 10
    monkeypatch.setattr(offload, "MAX_STEPS", few)
    response, steps = taken(encode(review(UNBOUNDED[case])), MUTATE_PATH, few)
    assert response is None
    assert steps < few * 1.1


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize("path", [MUTATE_PATH, VALIDATE_PATH])
def test_the_largest_set_that_can_be_stored_takes_half_of_the_steps(path: str, operation: str):
    js = jobset(*(rjob(f"r{i}", pod={"containers": [{"name": "m", "image": "i"}]}) for i in range(8_000)))
    old = stored(js)
    assert len(encode(old)) > 1.5 * 2**20, "etcd takes less"
    changed = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    response, steps = taken(encode(review(js) if operation == "CREATE" else review(changed, old)), path)
    assert response is not None
    assert response.allowed
    assert steps < MAX_STEPS / 2


@pytest.mark.parametrize("path", [MUTATE_PATH, VALIDATE_PATH])
async def test_what_takes_too_much_work_is_refused_and_its_author_told_so(path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(offload, "MAX_STEPS", 1000)
    response = await ask(review(stored(jobset(*(rjob(f"r{i}") for i in range(50))))), path)
    assert (response["allowed"], response["status"]["code"]) == (False, 413)
    assert "was not checked to its end" in response["status"]["message"]


@pytest.mark.parametrize("path", [MUTATE_PATH, VALIDATE_PATH])
async def test_no_objects_are_made_of_a_review_with_too_many_fields(path: str, monkeypatch: pytest.MonkeyPatch):
    """Whoever else is served by the process would wait for it."""
    monkeypatch.setattr(body, "decode_review", None)
    sent = encode(review(jobset(replicatedJobs=[{}] * MAX_FIELDS), uid="asked"))
    assert len(sent) < MAX_BODY
    response = await ask(sent, path)
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("asked", False, 413)
    assert (await ask(sent[:-1], path))["status"]["code"] == 413, "nor whether it is one is looked at"
    assert "make several objects of it" in response["status"]["message"]


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
async def test_no_policy_lets_pass_what_takes_too_much_work(failure_policy: str, monkeypatch: pytest.MonkeyPatch):
    spent = Work(0)
    monkeypatch.setattr(policies, "work", lambda: spent)
    source = Played(read_policy(manifest(maxJobs={"max": 1000}, failurePolicy=failure_policy)))
    checks = policies.PolicyChecks(source, source, GATES)
    app = create_app(jobset_handlers(engine(GATES), None, checks))
    response = await ask(review(stored(jobset())), VALIDATE_PATH, app)
    assert (response["allowed"], response["status"]["code"]) == (False, 413)
