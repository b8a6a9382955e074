"""What is read from an API server's answers; and that every way of judging otherwise is found, and nothing else."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from api.features import FeatureGates
from app.engine import engine
from authoring.checks import Checks
from authoring.suite_server import _with_audit
from authoring.suites import admission
from kube.model.field import Path
from policy.exception_types import JobSetPolicyException
from policy.judged import Namespace
from policy.kinds import PolicyId
from policy.suites.answers import (
    OUR_ANNOTATION,
    SERVER_ANNOTATION,
    Answer,
    Interpretation,
    answer_of_response,
    differences,
    interpret,
    other_refusals,
)
from policy.suites.judge import Finding, Result, Verdict, judge
from policy.suites.types import Suite, SuiteContents, SuiteNamespace, SuiteTest
from policy.types import JobSetPolicy, read_policy
from tests.support.asgi import post
from tests.support.corpus import policy_table
from tests.support.objects.jobsets import JSON, jobset, rjob
from tests.support.objects.policies import manifest
from tests.support.objects.reviews import answer, encode, review
from webhooks.jobset.default import with_defaults
from webhooks.jobset.handlers import VALIDATE_PATH, jobset_handlers
from webhooks.jobset.policies import PolicyChecks
from webhooks.router import create_app

GATES = FeatureGates({"JobSetActiveDeadlineSeconds": True})
PLACE = Path(("tests", 0))
VALID = (
    "jobsets.jobset.x-k8s.io \"a\" is forbidden: ValidatingAdmissionPolicy 'no-x' with binding 'b' denied request: no"
)


@dataclass
class Webhook:
    """Our validating webhook with policies of its own, as an API server asks it."""

    in_force: Sequence[JobSetPolicy]
    labels: dict[str, str]
    annotations: dict[str, str]

    async def namespace(self, name: str) -> Namespace:
        return Namespace(name, self.labels, self.annotations)

    def exceptions(self, namespace: str) -> Sequence[JobSetPolicyException]:
        return ()

    def count_decision(self, policy: PolicyId, rule: str, action: str, count: int = 1) -> None: ...

    def record_exception_use(self, namespace: str, name: str, uid: str) -> None: ...

    async def answer(self, js: JSON, old: JSON | None = None) -> Answer:
        app = create_app(jobset_handlers(engine(GATES), None, PolicyChecks(self, self, GATES)))
        sent = [
            None if each is None else with_defaults(Checks(GATES).prepare(each).object, None)[0] for each in (js, old)
        ]
        said = answer((await post(app, VALIDATE_PATH, encode(review(*sent)))).body)
        recorded = {f"vjobset.kb.io/{key}": text for key, text in said.get("auditAnnotations", {}).items()}
        code = 200 if said["allowed"] else said["status"]["code"]
        body = sent[0] if said["allowed"] else said["status"]
        return answer_of_response(code, body, said.get("warnings", ()), recorded)


def loaded(policies: Sequence[JSON], *jobsets: JSON, test: SuiteTest | None = None) -> SuiteContents:
    """A suite of one test, unless it is given another one."""
    namespace = SuiteNamespace(**policy_table.NAMESPACE)
    tests = test or SuiteTest(name="a", jobset=jobsets[0]["metadata"]["name"], namespace=namespace)
    named = {js["metadata"]["name"]: js for js in jobsets}
    return SuiteContents(suite=Suite(tests=(tests,)), policies=list(map(read_policy, policies)), jobsets=named)


async def asked(
    policies: Sequence[JSON], js: JSON, there: Sequence[JSON] | None = None
) -> tuple[Result, Answer, Interpretation]:
    """The verdict by some policies, and what an API server says that may have others."""
    own = loaded(policies, js)
    stored = [read_policy(_with_audit(body)) for body in (policies if there is None else there)]
    webhook = Webhook(stored, policy_table.NAMESPACE["labels"], policy_table.NAMESPACE["annotations"])
    said = await webhook.answer(js)
    return judge(own, 0, admission(GATES)), said, interpret(said, own.policies, update=False)


async def texts(policies: Sequence[JSON], js: JSON, there: Sequence[JSON] | None = None) -> list[str]:
    result, said, what = await asked(policies, js, there)
    assert result.verdict is not None
    return [str(error) for error in differences(result.verdict, said, what, PLACE, "a")]


async def test_30_policies_and_300_jobsets_are_judged_as_by_the_webhook():
    policies = policy_table.policies()
    for js, broken in policy_table.jobsets():
        result, said, what = await asked(policies, js)
        assert result.verdict is not None
        recorded = {(each.policy, each.path) for each in what.verdict.findings}
        assert (recorded <= set(broken), len(recorded) + what.unrecorded) == (True, len(broken))
        assert [*differences(result.verdict, said, what, PLACE, "a"), *other_refusals(what, PLACE, "a")] == []


LARGE = jobset(rjob(replicas=9))
ONE, TWO = (manifest("limits", ("Deny",), maxJobs={"max": most}) for most in (1, 2))
WARNS = manifest("limits", ("Warn",), maxJobs={"max": 1})
ROOMY = manifest("limits", ("Deny",), maxJobs={"max": 99})


@pytest.mark.parametrize(
    ("here", "there", "words"),
    [
        ([ONE], [ROOMY], ["only this command says: Deny by maxJobs of limits at spec.replicatedJobs[0].replicas: "]),
        ([ROOMY], [ONE], ["only the API server says: Deny by maxJobs of limits at spec.replicatedJobs[0].replicas: "]),
        ([ONE], [TWO], ["only the API server says: ", "only this command says: ", "the refusal does not say: "]),
        ([ONE], [WARNS], ["a rule that denies is broken, and the JobSet is admitted"]),
        ([ONE], [ONE], []),
    ],
)
async def test_a_difference_is_said_with_its_place(here: list[JSON], there: list[JSON], words: list[str]):
    found = await texts(here, LARGE, there)
    assert len(found) == len(words)
    assert all(f"without it: {text}" in line for text, line in zip(words, found, strict=True))
    assert all(line.startswith('tests[0]: Invalid value: "a": ') for line in found)


async def test_violations_that_are_not_recorded_are_counted():
    many = [manifest(f"limits-{number:02}", ("Deny",), maxJobs={"max": 1}) for number in range(25)]
    _, said, what = await asked(many, LARGE)
    assert (what.unrecorded, what.other_causes, len(said.causes)) == (5, [], 25)
    assert await texts(many, LARGE) == []
    assert len(await texts(many[1:], LARGE, many)) == 1
    assert len(await texts([*many, manifest("more", ("Deny",), maxJobs={"max": 1})], LARGE, many)) > 0


async def test_what_refuses_it_apart_from_policies_is_a_difference():
    old = jobset(rjob(replicas=2))
    webhook = Webhook([read_policy(_with_audit(ONE))], {}, {})
    said = await webhook.answer(LARGE, old)
    what = interpret(said, [read_policy(ONE)], update=True)
    assert [each.rule for each in what.verdict.findings] == ["maxJobs"]
    (text,) = map(str, other_refusals(what, PLACE, "a"))
    assert "field is immutable" in text
    assert "policy limits" not in text
    nobody = answer_of_response(500, {"message": "failed calling webhook"}, (), {})
    assert interpret(nobody, [], update=False).other_causes == ["failed calling webhook"]
    assert interpret(answer_of_response(502, None, (), {}), [], update=False).other_causes == ["code 502"]


def test_a_rule_that_could_not_be_checked_is_a_difference():
    record = json.dumps({"violations": [{"policy": "limits", "rule": "maxJobs", "error": "KeyError"}]})
    what = interpret(Answer({}, annotations={OUR_ANNOTATION: record}), [read_policy(ONE)], update=False)
    assert what.other_causes == ["maxJobs of policy limits: KeyError"]


def test_policies_of_the_api_server_are_heard_with_each_action():
    failure = {"policy": "no-x", "binding": "b", "message": "no", "validationActions": ["Audit"]}
    said = [
        answer_of_response(422, {"message": VALID}, (), {}),
        Answer({}, warnings=["Validation failed for ValidatingAdmissionPolicy 'no-x' with binding 'b': no", "other"]),
        Answer({}, annotations={SERVER_ANNOTATION: json.dumps([failure])}),
    ]
    for each, action in zip(said, ("Deny", "Warn", "Audit"), strict=True):
        what = interpret(each, [], update=False)
        assert what.verdict.findings == [Finding(action, "no-x", "ValidatingAdmissionPolicy", "", "no", "no")]
        assert what.other_causes == []


def test_defaults_are_compared_if_the_jobset_is_admitted():
    def filled(text: str) -> JSON:
        return {"metadata": {"annotations": {"policy.jobset.x-k8s.io/defaults": text}}}

    own, there = Verdict((), {"tenants": ["labels[team]"]}), Answer(filled('{"tenants":["labels[team]"]}'))
    assert list(differences(own, there, interpret(there, [], update=False), PLACE, "a")) == []
    other = Answer(filled("{}"))
    (error,) = differences(own, other, interpret(other, [], update=False), PLACE, "a")
    assert "gets the defaults none there, and {'tenants': ['labels[team]']} here" in str(error)
    assert list(differences(replace(own, defaults=None), other, interpret(other, [], update=True), PLACE, "a")) == []
    refused = answer_of_response(422, {"message": "no", "details": {"causes": []}}, (), {})
    assert interpret(refused, [], update=False).verdict.defaults is None
