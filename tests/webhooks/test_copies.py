"""Copies that MultiKueue makes with Go's types: fields that these lack come back in the worker, and nothing else does."""

import copy
import json
import re
from typing import Any

import jsonpatch
import pytest

from api.features import FeatureGates
from api.keys import MULTIKUEUE, MULTIKUEUE_ORIGIN, OWN_FIELDS_COPY, QUEUE_NAME
from api.own_fields import OWN_FIELDS
from app.engine import engine
from policy.types import JobSetPolicy, read_policy
from tests.support.corpus.go_crd import worker_copy
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.policies import setting
from tests.support.objects.reviews import review
from tests.support.webhook_app import ask
from tests.webhooks.test_forgotten_fields import whole
from tests.webhooks.test_policies import Played
from webhooks.jobset.copies import MAX_BYTES, own_values
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH, jobset_handlers
from webhooks.jobset.policies import PolicyChecks
from webhooks.review import MAX_FIELDS, AdmissionRequest, AdmissionResponse
from webhooks.router import create_app
from webhooks.work import MAX_STEPS, Work

GATES = FeatureGates({"AllAlpha": True})
HANDLERS = jobset_handlers(engine(GATES))
PERMANENT = {"permanent": [3]}
RULES = [
    {"name": "codes", "action": "RestartJobSet", "onExitCodes": {"operator": "In", "values": [7]}, "maxRestarts": 2},
    {"name": "reasons", "action": "FailJobSet", "onPodReasons": ["Evicted"]},
]


def answered(path: str, new: JSON, old: JSON | None = None) -> AdmissionResponse:
    operation = "CREATE" if old is None else "UPDATE"
    request = AdmissionRequest(uid="u", operation=operation, namespace="default", object=new, old_object=old)
    response = HANDLERS[path](request)
    assert isinstance(response, AdmissionResponse)
    return response


def mutated(new: JSON, old: JSON | None = None) -> JSON:
    response = answered(MUTATE_PATH, new, old)
    assert response.allowed, response.status
    made: JSON = jsonpatch.apply_patch(new, list(response.patch))
    return made


def admitted(new: JSON, old: JSON | None = None) -> tuple[JSON, tuple[str, ...]]:
    """What is stored, and the warnings."""
    made = mutated(new, old)
    response = answered(VALIDATE_PATH, made, old)
    assert response.allowed, response.status
    return made, response.warnings


def refusal(new: JSON) -> list[tuple[str, tuple[str, ...]]]:
    """Fields and rules by which a JobSet is refused."""
    mutation = answered(MUTATE_PATH, new)
    made = jsonpatch.apply_patch(new, list(mutation.patch))
    response = answered(VALIDATE_PATH, made) if mutation.allowed else mutation
    return (
        []
        if response.allowed
        else [(cause["field"], response.rule_ids) for cause in response.status["details"]["causes"]]
    )


def queued(*rjobs: JSON, **spec: Any) -> JSON:
    js = stored(jobset(*(rjobs or (rjob(pod={"restartPolicy": "Never"}, exitCodePolicy=PERMANENT),)), **spec))
    js["metadata"]["labels"] = {QUEUE_NAME: "q"}
    return js


def hub(*rjobs: JSON, **spec: Any) -> JSON:
    return queued(*rjobs, managedBy=MULTIKUEUE, **spec)


def annotation(obj: JSON) -> Any:
    text = obj["metadata"].get("annotations", {}).get(OWN_FIELDS_COPY)
    return None if text is None else json.loads(text)


def copied(text: str) -> JSON:
    """A copy with an annotation of somebody's."""
    made = worker_copy(hub())
    made["metadata"]["annotations"] = {OWN_FIELDS_COPY: text}
    return made


RICH = {"activeDeadlineSeconds": 600, "failurePolicy": {"maxRestarts": 3, "rules": RULES}}


def test_a_copy_gets_back_what_gos_types_have_dropped_and_is_the_same_set():
    original, _ = admitted(hub(**RICH))
    sent = worker_copy(original)
    assert "exitCodePolicy" not in sent["spec"]["replicatedJobs"][0]
    made, warnings = admitted(sent)
    assert {**made["spec"], "managedBy": MULTIKUEUE} == original["spec"]
    assert (annotation(made), warnings) == (annotation(original), ())


def test_the_annotation_has_each_field_by_the_names_of_items():
    made, _ = admitted(hub(**RICH))
    assert annotation(made) == {
        "activeDeadlineSeconds": 600,
        "failurePolicy.rules[codes].onExitCodes": RULES[0]["onExitCodes"],
        "failurePolicy.rules[reasons].onPodReasons": ["Evicted"],
        "failurePolicy.rules[codes].maxRestarts": 2,
        "replicatedJobs[workers].exitCodePolicy": PERMANENT,
    }


@pytest.mark.parametrize("change", ["labels", "managedBy", "neither"])
def test_only_sets_that_may_be_copied_get_it(change: str):
    """Kueue sets managedBy after this webhook: the label of a queue is enough, and warns of nothing."""
    js = hub()
    if change != "managedBy":
        del js["spec"]["managedBy"]
    if change != "labels":
        js["metadata"]["labels"] = {}
    made, warnings = admitted(js)
    assert (annotation(made) is not None) == (change != "neither")
    assert any("multikueue" in text for text in warnings) == (change == "managedBy")


def test_plain_sets_stay_byte_for_byte():
    plain = hub(rjob())
    assert answered(MUTATE_PATH, plain).patch == ()
    assert answered(MUTATE_PATH, worker_copy(plain)).patch == ()


def test_an_update_of_the_fields_is_one_of_the_annotation():
    old, _ = admitted(queued(rjob(), activeDeadlineSeconds=600))
    later, _ = admitted({**old, "spec": {**old["spec"], "activeDeadlineSeconds": 900}}, old)
    assert annotation(later) == {"activeDeadlineSeconds": 900}
    bare = copy.deepcopy(later)
    del bare["spec"]["activeDeadlineSeconds"]
    bare["metadata"]["annotations"]["jobset.sigs.k8s.io/removed-fields"] = "activeDeadlineSeconds"
    assert annotation(admitted(bare, later)[0]) is None
    forged = copy.deepcopy(old)
    forged["metadata"]["annotations"][OWN_FIELDS_COPY] = '{"activeDeadlineSeconds": 1}'
    assert admitted(forged, old)[0] == old


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        "[" * 5000,
        '{"replicatedJobs[other].exitCodePolicy": {"permanent": [3]}}',
        '{"replicatedJobs[workers].template": {}}',
        '{"suspend": false}',
        '{"failurePolicy.rules[a].onExitCodes": null}',
        '{"activeDeadlineSeconds": 60, "nothing": 0}',
        json.dumps({"replicatedJobs[workers].exitCodePolicy": PERMANENT, "x": "a" * MAX_BYTES}),
    ],
)
def test_an_annotation_that_does_not_fit_the_set_is_refused(text: str):
    [(field, rules)] = refusal(copied(text))[:1]
    assert OWN_FIELDS_COPY in field
    assert "own-fields-altered" in rules


def test_a_field_that_differs_is_refused_and_one_beside_the_annotation_is_not():
    sent = worker_copy(admitted(hub())[0])
    sent["spec"]["activeDeadlineSeconds"] = 60
    assert annotation(admitted(sent)[0])["activeDeadlineSeconds"] == 60
    sent["spec"]["replicatedJobs"][0]["exitCodePolicy"] = {"permanent": [4]}
    assert refusal(sent) == [(f"metadata.annotations[{OWN_FIELDS_COPY}]", ("own-fields-altered",))]


@pytest.mark.parametrize("policy", [{"permanent": ["x"]}, {"permanent": [0]}, 7])
def test_what_may_not_be_written_as_a_field_may_not_be_restored(policy: Any):
    written = queued(rjob(pod={"restartPolicy": "Never"}, exitCodePolicy=policy))
    assert refusal(copied(json.dumps({"replicatedJobs[workers].exitCodePolicy": policy}))) == refusal(written) != []


def test_a_set_that_is_no_copy_gets_nothing_from_the_annotation():
    js = copied('{"activeDeadlineSeconds": 1}')
    del js["metadata"]["labels"][MULTIKUEUE_ORIGIN]
    made, _ = admitted(js)
    assert ("activeDeadlineSeconds" in made["spec"], annotation(made)) == (False, None)


def large(**fields: Any) -> JSON:
    codes = {"permanent": list(range(1, 255))}
    groups = [rjob(f"g{i}", pod={"restartPolicy": "Never"}, exitCodePolicy=codes) for i in range(80)]
    return queued(*groups, **fields)


def test_what_the_annotation_has_no_room_for_is_refused_where_it_is_copied():
    assert refusal(large(managedBy=MULTIKUEUE)) == [("spec.managedBy", ("multikueue-own-fields",))]
    assert annotation(admitted(large())[0]) is None


def test_a_set_that_gets_multikueue_later_is_not_sent_without_its_fields():
    js = hub()
    js["metadata"]["labels"] = {}
    response = answered(VALIDATE_PATH, js)
    assert response.rule_ids == ("multikueue-own-fields",)
    assert QUEUE_NAME in response.status["message"]


def test_a_fault_of_a_field_is_the_only_one_that_is_named():
    group = rjob(pod={"restartPolicy": "Never"}, exitCodePolicy={"permanent": [3, 0]})
    assert [field for field, _ in refusal(hub(group))] == ["spec.replicatedJobs[0].exitCodePolicy.permanent[1]"]


def test_the_author_is_told_what_a_worker_with_the_go_jobset_does():
    _, warnings = admitted(hub(**RICH))
    [codes] = [text for text in warnings if text.startswith("spec.failurePolicy.rules[0].onExitCodes: ")]
    assert "matches every failure" in codes
    assert codes.endswith("; run this controller there [multikueue-drops-field]")
    assert sum("multikueue-drops-field" in text for text in warnings) == 5
    many = [{"name": f"r{i}", **{k: v for k, v in RULES[0].items() if k != "name"}} for i in range(20)]
    _, few = admitted(hub(rjob(pod={"restartPolicy": "Never"}), failurePolicy={"maxRestarts": 3, "rules": many}))
    assert sum("multikueue-drops-field" in text for text in few) == 2
    _, quiet = admitted(hub(rjob(), executionPolicy={"executionPolicyOrder": "AnyOrder"}))
    assert [text for text in quiet if "multikueue" in text] == []


async def with_policies(obj: JSON, *policies: JobSetPolicy) -> JSON:
    source = Played(*policies)
    app = create_app(jobset_handlers(engine(GATES), None, PolicyChecks(source, source, GATES)))
    response = await ask(review(obj), MUTATE_PATH, app)
    made: JSON = jsonpatch.apply_patch(obj, response.get("operations", []))
    return made


async def test_defaults_of_policies_travel_too_and_those_of_the_worker_are_added():
    deadline = read_policy(setting(activeDeadlineSeconds=60))
    assert annotation(await with_policies(hub(), deadline))["activeDeadlineSeconds"] == 60
    made = await with_policies(worker_copy(await with_policies(hub())), deadline)
    assert annotation(made)["activeDeadlineSeconds"] == made["spec"]["activeDeadlineSeconds"] == 60
    assert made["spec"]["replicatedJobs"][0]["exitCodePolicy"] == PERMANENT


def test_every_field_travels():
    js = whole()
    js["spec"]["managedBy"] = MULTIKUEUE
    js["metadata"]["labels"] = {QUEUE_NAME: "q"}
    original = jsonpatch.apply_patch(js, list(answered(MUTATE_PATH, js).patch))
    assert {re.sub(r"\[\w+\]", ".*", name) for name in annotation(original)} == {*map(".".join, OWN_FIELDS)}
    restored = jsonpatch.apply_patch(sent := worker_copy(original), list(answered(MUTATE_PATH, sent).patch))
    assert {**restored["spec"], "managedBy": MULTIKUEUE} == js["spec"]


@pytest.mark.parametrize("item", [None, {}])
def test_as_many_items_as_a_review_may_have_are_within_its_work(item: JSON | None):
    spec = {"failurePolicy": {"rules": [item] * MAX_FIELDS}}
    assert own_values(spec, Work(MAX_STEPS)) == {}, "the schema says what is wrong, not a limit of work"
