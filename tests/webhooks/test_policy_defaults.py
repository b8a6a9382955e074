"""Defaults of policies at admission: set in a new JobSet, never over something, and kept when an update leaves them out."""

import copy
import json
from typing import Any

import jsonpatch
import pytest

from kube.errors import TransportError
from policy.recorded import ANNOTATION
from policy.types import JobSetPolicy, read_policy
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.policies import policy, setting
from tests.webhooks.test_policies import QUEUES, Played
from webhooks.jobset import policies as policies_module
from webhooks.jobset.handlers import MUTATE_PATH

GPU = {"key": "gpu", "operator": "Exists"}
ALL: JSON = {
    "labels": {"team": "a"},
    "ttlSecondsAfterFinished": 60,
    "priorityClassName": "low",
    "nodeSelector": {"pool": "p", "example.com/zone": "z"},
    "tolerations": [GPU],
}
NAMES = [
    "labels[team]",
    "ttlSecondsAfterFinished",
    "priorityClassName",
    "nodeSelector[pool]",
    "nodeSelector[example.com/zone]",
    "tolerations[gpu]",
]
SETS = read_policy(setting(**ALL))


async def created(obj: JSON, *policies: JobSetPolicy) -> JSON:
    """What the mutating webhook makes of a new JobSet."""
    response = await Played(*policies).answer(obj, path=MUTATE_PATH)
    assert response["allowed"]
    made: JSON = jsonpatch.apply_patch(obj, response.get("operations", []))
    return made


def record(obj: JSON) -> JSON:
    return json.loads(obj["metadata"].get("annotations", {}).get(ANNOTATION, "{}"))


def pod_of(obj: JSON, index: int = 0) -> JSON:
    pod: JSON = obj["spec"]["replicatedJobs"][index]["template"]["spec"]["template"]["spec"]
    return pod


async def test_what_is_set_is_counted():
    played = Played(
        SETS, read_policy(setting("other", match={"namespaceSelector": {"matchLabels": {"a": "b"}}}, **ALL))
    )
    await played.answer(jobset(), path=MUTATE_PATH)
    assert played.counted == [("tenants", "defaults", "Set")]


async def test_nothing_is_overwritten():
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["mine"]}]}]}}  # fmt: skip
    own = {
        "priorityClassName": "high",
        "nodeSelector": {"example.com/zone": "mine"},
        "affinity": {"nodeAffinity": affinity},
        "tolerations": [{"key": "gpu", "value": "mine"}],
    }
    obj = jobset(rjob(pod=own), ttlSecondsAfterFinished=0)
    obj["metadata"]["labels"] = {"team": ""}
    made = await created(obj, SETS)
    assert {key: pod_of(made)[key] for key in own} == own
    assert (made["spec"]["ttlSecondsAfterFinished"], made["metadata"]["labels"]) == (0, {"team": ""})
    assert ANNOTATION not in made["metadata"].get("annotations", {})


@pytest.mark.parametrize("pod", [{"nodeName": "n"}, {"tolerations": [{"operator": "Exists"}]}])
async def test_a_pod_that_names_its_node_or_tolerates_everything_gets_no_more(pod: JSON):
    made = pod_of(await created(jobset(rjob(pod=pod)), SETS))
    assert ("nodeSelector" in made) is ("nodeName" not in pod)
    assert made.get("tolerations") == ([GPU] if "nodeName" in pod else pod["tolerations"])


async def test_null_is_nothing():
    made = await created(jobset(rjob(pod={"priorityClassName": "", "nodeSelector": None, "tolerations": None})), SETS)
    assert record(made) == {"tenants": NAMES}


async def test_a_copy_says_what_was_set_in_itself():
    first = await created(jobset(), SETS)
    assert record(await created(first, SETS)) == {}
    assert record(await created(first, SETS, read_policy(setting("more", labels={"more": "x"})))) == {
        "more": ["labels[more]"]
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda obj: obj["metadata"].update(labels=["a"], annotations="b"),
        lambda obj: obj["spec"].update(replicatedJobs={}),
        lambda obj: obj["spec"]["replicatedJobs"].append(None),
        lambda obj: pod_of(obj).update(tolerations="gpu", nodeSelector=[], affinity=7),
        lambda obj: obj["spec"]["replicatedJobs"][0]["template"].update(spec=None),
    ],
)
async def test_a_wrong_shape_is_left_for_the_schema(change: Any):
    obj = jobset()
    change(obj)
    response = await Played(SETS).answer(obj, path=MUTATE_PATH)
    assert response["status"]["code"] in {200, 422}


async def test_the_author_is_not_refused_for_a_default_that_another_policy_refuses():
    made = await created(jobset(), SETS, policy("short", ttl={"max": 10}))
    assert "ttlSecondsAfterFinished" not in made["spec"]
    assert "ttlSecondsAfterFinished" not in record(made)["tenants"]


async def test_names_of_what_the_api_server_has_set_for_a_policy_that_it_holds_are_kept():
    """It sets defaults before this webhook is asked, which finds them as if the author had written them."""
    both = setting(**ALL)
    both["spec"]["apiServer"] = "Enforce"
    there = await created(jobset(), SETS)
    assert record(await created(there, read_policy(both))) == {"tenants": NAMES}
    assert record(await created(there, SETS)) == {}


async def updated(new: JSON, old: JSON, *policies: JobSetPolicy, user: str = "ann") -> JSON:
    """What the mutating webhook makes of an update."""
    response = await Played(*policies).answer(new, old, path=MUTATE_PATH, user=user)
    assert response["allowed"]
    made: JSON = jsonpatch.apply_patch(new, response.get("operations", []))
    return made


class TestAnUpdate:
    async def test_that_leaves_them_out_keeps_them_as_they_are_stored(self):
        manifest = jobset(rjob("a"), rjob("b", pod={"tolerations": [{"key": "own", "operator": "Exists"}]}))
        old = stored(await created(manifest, SETS))
        kept = await updated(copy.deepcopy(manifest), old, SETS)
        assert kept["metadata"] == old["metadata"]
        assert [pod_of(kept, i) for i in range(2)] == [pod_of(old, i) for i in range(2)]
        assert kept["spec"]["ttlSecondsAfterFinished"] == 60

    @pytest.mark.parametrize(
        "policies",
        [
            (),
            (policy("tenants", ttl={"max": 90}),),
            (read_policy(setting("other", **ALL)),),
            (read_policy(setting(match={"namespaceSelector": {"matchLabels": {"a": "b"}}}, **ALL)),),
            (
                read_policy(
                    setting(
                        labels={"team": "b"},
                        ttlSecondsAfterFinished=61,
                        priorityClassName="high",
                        nodeSelector={"pool": "q", "example.com/zone": "y"},
                        tolerations=[{"key": "gpu", "value": "other"}],
                    )
                ),
            ),
        ],
        ids=["none", "no-defaults", "another-name", "elsewhere", "other-values"],
    )
    async def test_keeps_nothing_that_no_policy_in_force_sets_now(self, policies: tuple[JobSetPolicy, ...]):
        old = stored(await created(jobset(), SETS))
        made = await updated(jobset(), old, *policies)
        assert made["metadata"].get("labels", {}) == {}
        assert "ttlSecondsAfterFinished" not in made["spec"]
        assert pod_of(made).keys() & {"priorityClassName", "nodeSelector", "tolerations"} == set()

    async def test_with_a_forged_annotation_keeps_nothing(self):
        old = stored(jobset(rjob(pod={"nodeSelector": {"pool": "mine"}}), ttlSecondsAfterFinished=7))
        old["metadata"] |= {"labels": {"team": "x"}, "annotations": {ANNOTATION: json.dumps({"tenants": NAMES})}}
        new = stored(jobset())
        new["metadata"]["annotations"] = old["metadata"]["annotations"]
        response = await Played(SETS).answer(new, old, path=MUTATE_PATH)
        assert (response.get("operations"), response.get("warnings")) == (None, None)

    async def test_by_the_controller_of_a_queue_is_left_as_it_is(self):
        old = stored(await created(jobset(), SETS))
        new = copy.deepcopy(old)
        del pod_of(new)["nodeSelector"], pod_of(new)["tolerations"]
        assert await updated(new, old, SETS, user=QUEUES) == new
        assert await updated(new, old, SETS) == old

    async def test_of_a_namespace_that_cannot_be_read_keeps_nothing(self):
        old = stored(await created(jobset(), SETS))
        played = Played(SETS, namespace=TransportError("no answer"))
        response = await played.answer(jobset(), old, path=MUTATE_PATH)
        assert response["allowed"]
        assert "ttlSecondsAfterFinished" not in str(response["operations"])

    async def test_that_removes_a_field_alone_is_told_that_it_is_put_back(self):
        old = stored(await created(jobset(), SETS))
        new = copy.deepcopy(old)
        del new["spec"]["ttlSecondsAfterFinished"], new["metadata"]["labels"]["team"]
        said = [
            f'{path}: put back: policy tenants has set it as a default; remove "{name}" from the annotation'
            f" {ANNOTATION} as well"
            for path, name in (
                ("metadata.labels.team", "labels[team]"),
                ("spec.ttlSecondsAfterFinished", "ttlSecondsAfterFinished"),
            )
        ]
        assert (await Played(SETS).answer(new, old, path=MUTATE_PATH))["warnings"] == said
        assert not (await Played(SETS).answer(old, old, path=MUTATE_PATH)).get("warnings")

    async def test_by_the_manifest_that_was_created_is_told_nothing(self):
        old = stored(await created(jobset(), SETS))
        assert not (await Played(SETS).answer(jobset(), old, path=MUTATE_PATH)).get("warnings")

    async def test_that_writes_another_value_has_it(self):
        old = stored(await created(jobset(), SETS))
        new = jobset(rjob(pod={"priorityClassName": "high", "tolerations": [{"key": "gpu", "value": "x"}]}))
        kept = await updated(new, old, SETS)
        assert pod_of(kept)["priorityClassName"] == "high"
        assert pod_of(kept)["tolerations"] == [{"key": "gpu", "value": "x"}]

    @pytest.mark.parametrize(
        "text", ["", "[]", "{", '{"a": "b"}', '{"tenants": ["nothing", "labels[", "tolerations", "nodeSelector[x]"]}']
    )
    async def test_that_says_nonsense_changes_nothing(self, text: str):
        old = stored(jobset())
        new = copy.deepcopy(old)
        new["metadata"]["annotations"] = {ANNOTATION: text}
        assert await updated(new, old, SETS) == new

    async def test_of_a_wrong_shape_is_left_for_the_schema(self):
        old = stored(await created(jobset(), SETS))
        for rjobs in (None, [None, {"name": 3}, {"name": "workers", "template": 4}]):
            new = {"metadata": {"name": "train", "namespace": "default"}, "spec": {"replicatedJobs": rjobs}}
            response = await Played(SETS).answer(new, old, path=MUTATE_PATH)
            assert response["status"]["code"] in {200, 422}


class TestDefaultsThatCannotBeSet:
    @pytest.fixture(autouse=True)
    def broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def find(policies: list[JobSetPolicy], *_: object, on_failure: Any) -> list[Any]:
            on_failure(policies[0], KeyError("a value"))
            return []

        monkeypatch.setattr(policies_module, "defaults_for", find)

    async def test_are_a_warning_by_one_that_warns(self):
        body = setting(**ALL)
        body["spec"]["validationActions"] = ["Warn"]
        response = await Played(read_policy(body)).answer(jobset(), path=MUTATE_PATH)
        assert response["allowed"]
        assert response["operations"]
        assert response["warnings"] == ["spec: policy tenants: defaults were not set: internal error (KeyError)"]


async def test_a_namespace_that_cannot_be_read_is_said_about_policies_with_defaults():
    played = Played(SETS, policy("other", ttl={"max": 1}), namespace=TransportError("no answer"))
    response = await played.answer(jobset(), path=MUTATE_PATH)
    assert response["status"]["message"] == "internal error (TransportError) in the defaults of policy tenants"
    assert played.counted == [("tenants", "defaults", "Error")]
