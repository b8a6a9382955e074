"""Spares: the template that the webhook fills in, and what a JobSet with spares must hold."""

from typing import Any

import pytest

from api import keys
from api.features import FeatureGates
from app.engine import engine
from kube.model.jsontree import set_in
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.updates import changed

GATES = FeatureGates({"JobSetSpares": True})
SPARE = "spec.replicatedJobs[1]"
CONTAINER = {
    "name": "main",
    "image": "train",
    "command": ["python", "train.py"],
    "args": ["--fast"],
    "resources": {"requests": {"cpu": "4"}},
    "livenessProbe": {"exec": {"command": ["true"]}},
}
POD = {
    "containers": [CONTAINER],
    "initContainers": [{"name": "prepare", "image": "tools"}],
    "nodeSelector": {"gpu": "yes"},
    "priorityClassName": "high",
    "restartPolicy": "Never",
}


def spare(name: str = "spare", target: str = "workers", template: Any = None, **more: Any) -> JSON:
    return {"name": name, "replicas": 1, "spareFor": target, "template": template or {}, **more}


def with_spares(*spares: JSON, pod: Any = None, **more: Any) -> JSON:
    return jobset(rjob(pod={**POD, **(pod or {})}), *spares, **more)


def found(js: JSON, gates: FeatureGates = GATES) -> list[tuple[str, str]]:
    """Path and id of each broken rule of creation."""
    return [(str(error.path), error.rule.id) for error in engine(gates).findings_about_new(js).errors]


def template(js: JSON) -> JSON:
    filled: JSON = engine(GATES).findings_about_new(js).object["spec"]["replicatedJobs"][1]["template"]["spec"]
    return filled


def test_the_template_is_that_of_the_workers_with_a_process_that_holds_the_place():
    job = template(with_spares(spare()))
    pod = job["template"]["spec"]
    [container] = pod["containers"]
    assert (job["parallelism"], job["completions"], job["completionMode"]) == (1, 1, "Indexed")
    assert (pod["nodeSelector"], pod["priorityClassName"]) == (POD["nodeSelector"], "high")
    assert (container["image"], container["resources"]) == ("train", CONTAINER["resources"])
    assert container["command"][0] == "sh"
    assert container.keys() == {"name", "image", "resources", "command"}
    assert "initContainers" not in pod


def test_an_image_without_a_shell_gets_the_command_that_is_given():
    given = {"spec": {"template": {"spec": {"containers": [{"name": "main", "command": ["/pause"]}]}}}}
    [container] = template(with_spares(spare(template=given)))["template"]["spec"]["containers"]
    assert (container["image"], container["command"]) == ("train", ["/pause"])


@pytest.mark.parametrize(
    "container", [{"name": "main"}, {"command": ["/pause"]}, {"name": 1, "command": ["/pause"]}, 1]
)
def test_a_container_without_a_name_or_a_command_says_nothing_about_the_process(container: Any):
    given = {"spec": {"template": {"spec": {"containers": [container]}}}}
    [held] = template(with_spares(spare(template=given)))["template"]["spec"]["containers"]
    assert held["command"][0] == "sh"


def test_a_template_that_was_filled_in_is_found_again_when_the_manifest_is_applied():
    before = engine(GATES).findings_about_new(with_spares(spare())).object
    old = stored(before)
    again = engine(GATES).findings_about_update(old, changed(old, "replicatedJobs", 1, "template", to={}))
    assert not again.errors
    assert again.object["spec"]["replicatedJobs"][1] == old["spec"]["replicatedJobs"][1]
    assert found(before) == []


@pytest.mark.parametrize(
    ("js", "broken"),
    [
        (with_spares(spare()), []),
        (
            with_spares(spare(), successPolicy={"operator": "All", "targetReplicatedJobs": ["spare"]}),
            [("spec.successPolicy.targetReplicatedJobs[0]", "spare-named")],
        ),
        (
            with_spares(
                spare(), failurePolicy={"rules": [{"action": "FailJobSet", "targetReplicatedJobs": ["spare"]}]}
            ),
            [("spec.failurePolicy.rules[0].targetReplicatedJobs[0]", "spare-named")],
        ),
        (
            with_spares(spare(), rjob("next", dependsOn=[{"name": "spare", "status": "Ready"}])),
            [("spec.replicatedJobs[2].dependsOn[0].name", "spare-named")],
        ),
        (
            with_spares(spare(dependsOn=[{"name": "workers", "status": "Ready"}])),
            [(f"{SPARE}.dependsOn", "spare-named")],
        ),
        (
            with_spares(spare(), coordinator={"replicatedJob": "spare"}),
            [("spec.coordinator.replicatedJob", "spare-named")],
        ),
        (
            with_spares(spare(), startupPolicy={"startupPolicyOrder": "InOrder"}),
            [(f"{SPARE}.spareFor", "spare-order")],
        ),
    ],
)
def test_spares_are_no_part_of_what_the_set_does(js, broken):
    assert found(js) == broken


@pytest.mark.parametrize("target", ["absent", "spare"])
def test_a_spare_stands_in_for_a_group_that_runs_a_program(target):
    assert (f"{SPARE}.spareFor", "spare-target") in found(with_spares(spare(target=target)))


def test_spares_do_not_restart_in_place():
    """So they are made again at once, and need nothing that such Jobs need."""
    job = {"backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed", "completions": 1, "parallelism": 1}
    policy = {"maxRestarts": 3, "restartStrategy": "InPlaceRestart"}
    js = jobset(rjob(pod=POD, job=job), spare(), failurePolicy=policy)
    assert found(js, FeatureGates({"JobSetSpares": True, "InPlaceRestart": True})) == []


GANG = {"schedulingPolicy": {"gang": {}}}
CONSTRAINT = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
CLAIM = {"resourceClaims": [{"name": "link", "resourceClaimName": "link"}]}


@pytest.mark.parametrize(
    ("scheduling", "broken"),
    [
        ({"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}, []),
        ({"replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {}}]}, []),
        ({**GANG, **CONSTRAINT}, []),
        ({"replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {}, **CONSTRAINT}]}, []),
        ({"replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": CONSTRAINT}]}, []),
        (
            {"replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": CLAIM}]},
            [(f"{SPARE}.spareFor", "spare-placement")],
        ),
        (
            {"replicatedJobs": [{"targetReplicatedJobs": ["workers"]}, {"targetReplicatedJobs": ["spare"]}]},
            [("spec.scheduling.replicatedJobs[1].targetReplicatedJobs[0]", "spare-named")],
        ),
    ],
)
def test_spares_stand_in_for_gangs_that_share_no_devices(scheduling, broken):
    gates = {"JobSetSpares": True, "JobSetWorkloadAwareSchedulingAPI": True, "JobSetGangOfGangs": True}
    made = engine(FeatureGates(gates)).findings_about_new(with_spares(spare(), suspend=True, scheduling=GANG)).object
    old, new = stored(made), stored(made)
    new["spec"]["scheduling"] = scheduling
    for errors in (
        engine(FeatureGates(gates)).findings_about_new(new).errors,
        engine(FeatureGates(gates)).findings_about_update(old, new).errors,
    ):
        assert [(str(error.path), error.rule.id) for error in errors] == broken


def test_a_spare_follows_one_job_of_a_gang_whose_jobs_have_a_domain_each():
    """So there are at most as many Jobs of spares; with more pods they hold more places in each domain."""
    gates = FeatureGates({"JobSetSpares": True, "JobSetWorkloadAwareSchedulingAPI": True, "JobSetGangOfGangs": True})
    scheduling = {"replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": CONSTRAINT}]}
    js = with_spares(spare(template={"spec": {"parallelism": 3, "completions": 3}}), scheduling=scheduling)
    filled = engine(gates).findings_about_new(js).object
    assert filled["spec"]["replicatedJobs"][1]["template"]["spec"]["completions"] == 3
    assert found(filled, gates) == []
    filled["spec"]["replicatedJobs"][1]["replicas"] = 2
    assert found(filled, gates) == [(f"{SPARE}.replicas", "spare-placement")]


def test_workers_may_become_fewer_than_their_spares_but_spares_no_more_than_workers():
    """A client that changes the number of workers alone, such as a queue, is not refused because of another field."""
    gates = FeatureGates(
        dict.fromkeys(
            ("JobSetSpares", "JobSetWorkloadAwareSchedulingAPI", "JobSetGangOfGangs", "ElasticJobSet"),
            True,
        )
    )
    scheduling = {"replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": CONSTRAINT}]}
    js = with_spares(spare(replicas=2), scheduling=scheduling)
    js["spec"]["replicatedJobs"][0]["replicas"] = 3
    old = stored(engine(gates).findings_about_new(js).object)
    assert engine(gates).findings_about_update(old, changed(old, "replicatedJobs", 0, "replicas", to=1)).errors == ()
    assert engine(gates).findings_about_update(old, changed(old, "replicatedJobs", 1, "replicas", to=3)).errors == ()
    [error] = engine(gates).findings_about_update(old, changed(old, "replicatedJobs", 1, "replicas", to=4)).errors
    assert (str(error.path), error.rule.id) == (f"{SPARE}.replicas", "spare-placement")


@pytest.mark.parametrize(("pods", "field"), [((0, 0), "completions"), ((0, 1), "parallelism"), ((1, 0), "completions")])
def test_a_spare_without_pods_is_refused_because_it_holds_no_place(pods: tuple[int, int], field: str):
    numbers = dict(zip(("parallelism", "completions"), pods, strict=True))
    assert found(with_spares(spare(template={"spec": numbers}))) == [
        (f"{SPARE}.template.spec.{field}", "spare-placement")
    ]


def test_a_topology_of_the_whole_set_does_not_apply_to_its_spares():
    gates = FeatureGates({"JobSetSpares": True, "JobSetWorkloadAwareSchedulingAPI": True})
    js = with_spares(spare(), suspend=True, scheduling=GANG | CONSTRAINT)
    annotations = {"kueue.x-k8s.io/podset-required-topology": "block"}
    js["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"] = {"annotations": annotations}
    made = engine(gates).findings_about_new(js)
    [warned] = [warning for warning in made.warnings if warning.rule.id == "scheduling-kueue-topology"]
    assert made.object["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["metadata"] == {
        "annotations": annotations
    }
    assert str(warned.path).startswith("spec.replicatedJobs[0]")


def test_a_spare_follows_a_gang_into_its_domain_by_the_only_affinity_to_pods():
    """kube-scheduler looks for a pod that all terms select, so a second one can keep a spare from every node."""
    gates = FeatureGates({"JobSetSpares": True, "JobSetWorkloadAwareSchedulingAPI": True})
    term = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "zone"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    js = with_spares(spare(), pod={"affinity": affinity}, scheduling=GANG)
    assert found(engine(gates).findings_about_new(js).object, gates) == []
    js["spec"]["scheduling"] = {**GANG, **CONSTRAINT}
    assert found(engine(gates).findings_about_new(js).object, gates) == [(f"{SPARE}.spareFor", "spare-placement")]


RACK = {keys.EXCLUSIVE_TOPOLOGY: "rack"}


def test_no_spare_holds_a_domain_for_a_gang():
    gates = FeatureGates({"JobSetSpares": True, "JobSetWorkloadAwareSchedulingAPI": True, "JobSetGangOfGangs": True})
    js = with_spares(spare(), scheduling={"replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {}}]})
    for annotated in annotated_workers(js):
        findings = found(engine(gates).findings_about_new(annotated).object, gates)
        assert (f"{SPARE}.spareFor", "spare-placement") in findings


def annotated_workers(js: JSON) -> list[JSON]:
    """The set, and the set with exclusive placement at each level: whole set, Job template or pod template."""
    job = ("spec", "replicatedJobs", 0, "template")
    levels = ((), job, (*job, "spec", "template"))
    return [set_in(js, (*level, "metadata", "annotations"), RACK) for level in levels]


def test_a_spare_holds_a_domain_of_the_same_kind_as_the_group_has():
    js = with_spares(spare())
    js["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"annotations": RACK}
    filled = engine(GATES).findings_about_new(js).object
    assert filled["spec"]["replicatedJobs"][1]["template"]["metadata"] == {"annotations": RACK}
    assert found(filled) == []
    js["spec"]["replicatedJobs"][1]["template"] = {"spec": {"parallelism": 2, "completions": 2}}
    assert found(js) == [(f"{SPARE}.template.spec.parallelism", "spare-template")]
    filled["spec"]["replicatedJobs"][1]["template"]["metadata"] = {"annotations": {keys.EXCLUSIVE_TOPOLOGY: "zone"}}
    assert found(filled) == [(f"{SPARE}.template.metadata.annotations", "spare-template")]


def test_a_spare_holds_a_domain_if_the_annotation_is_on_the_pod_template():
    js = with_spares(spare())
    js["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"] = {"annotations": RACK}
    filled = engine(GATES).findings_about_new(js).object
    pods = filled["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]
    assert pods["metadata"] == {"annotations": RACK}
    assert found(filled) == []
    js["spec"]["replicatedJobs"][1]["template"] = {"spec": {"parallelism": 2, "completions": 2}}
    assert found(js) == [(f"{SPARE}.template.spec.parallelism", "spare-template")]
    for annotations in ({keys.EXCLUSIVE_TOPOLOGY: "zone"}, {}):
        pods["metadata"] = {"annotations": annotations}
        assert found(filled) == [(f"{SPARE}.template.spec.template.metadata.annotations", "spare-template")]


@pytest.mark.parametrize("annotations", [RACK, RACK | {keys.NODE_SELECTOR_STRATEGY: "true"}])
def test_nodes_that_are_labelled_for_one_job_have_no_spares(annotations: dict[str, str]):
    js = with_spares(spare())
    js["metadata"]["annotations"] = annotations
    assert found(js) == ([] if annotations == RACK else [(f"{SPARE}.spareFor", "spare-placement")])


def test_a_template_with_other_resources_is_refused_where_it_differs():
    filled = engine(GATES).findings_about_new(with_spares(spare())).object
    spec = filled["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]
    spec["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    assert found(filled) == [(f"{SPARE}.template.spec.template.spec.containers", "spare-template")]


def test_a_set_has_few_groups_of_spares():
    js = with_spares(*(spare(f"spare-{n}") for n in range(9)))
    assert ("spec.replicatedJobs[9].spareFor", "spare-groups") in found(js)


def test_without_its_gate_the_field_is_refused():
    assert found(with_spares(spare()), FeatureGates()) == [(f"{SPARE}.spareFor", "spare-gate")]


def test_what_a_group_stands_in_for_never_changes():
    old = stored(engine(GATES).findings_about_new(with_spares(spare(), rjob("others", pod=POD))).object)
    new = changed(old, "replicatedJobs", 1, "spareFor", to="others")
    assert [error.rule.id for error in engine(GATES).findings_about_update(old, new).errors] == [
        "immutable-replicated-job"
    ]


def test_shares_count_no_spares():
    js = with_spares(spare(), successPolicy={"operator": "All", "minSucceeded": 2})
    assert [path for path, _ in found(js)] == ["spec.successPolicy.minSucceeded"]
