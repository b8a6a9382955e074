"""Groups as they are sent: word for word what a person would write for the same tree (Kubernetes 1.37)."""

import pytest
from msgspec import convert

from api.gang_objects import build_group, build_workload, contains, is_same
from api.gang_status import StoredGroup
from api.gangs import forest
from tests.support.objects.gang_trees import entry, workers
from tests.support.objects.stored_sets import jobset


def topology(key):
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


def groups(count):
    return {"schedulingPolicy": {"gang": {"minGroupCount": count}}}


def pods(count):
    return {"schedulingPolicy": {"gang": {"minCount": count}}}


BASIC = {"schedulingPolicy": {"basic": {}}}
GANG = {"schedulingPolicy": {"gang": {}}}
ALL = {"disruptionMode": {"all": {}}}
SINGLE = {"disruptionMode": {"single": {}}}
TRAINING = {"priorityClassName": "training"}


def specs(js):
    """(spec of the Workload without its owner, specs of the groups by template, parents first).

    Names are those of templates, so that a person can read them.
    """
    found = forest(js)
    template = {group.name: group.template for group in found.groups()}
    workload = build_workload(js, found)["spec"]
    owner = workload.pop("controllerRef")
    assert owner == {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "js"}
    made = []
    for root in found.roots:
        for group, parent in root.with_parents():
            body = build_group(js, found, group, parent, group.gang_size)
            spec = body["spec"]
            assert spec.pop("workloadRef") == {"workloadName": found.workload, "templateName": group.template}
            if "parentCompositePodGroupName" in spec:
                spec["parent"] = template[spec.pop("parentCompositePodGroupName")]
            made.append((body["kind"], group.template, spec))
    return workload, made


def test_three_levels_with_a_leader():
    scheduling = {
        **GANG,
        **topology("zone"),
        **SINGLE,
        "replicatedJobs": [
            entry("leader", **ALL),
            entry("workers", **topology("superslice"), **ALL, job=topology("cube")),
        ],
    }
    pod = {"pod": TRAINING}
    js = jobset(workers("leader", 1, 1, **pod), workers("workers", 2, 2, **pod), scheduling=scheduling)
    root = {**TRAINING, **groups(2), **topology("zone"), **SINGLE}
    leader = {**TRAINING, **pods(1), **ALL}
    middle = {**TRAINING, **groups(2), **topology("superslice"), **ALL}
    job = {**TRAINING, **pods(2), **topology("cube"), **ALL}
    assert specs(js) == (
        {
            "compositePodGroupTemplates": [
                {
                    "name": "jobset",
                    **root,
                    "podGroupTemplates": [{"name": "rj-leader", **leader}],
                    "compositePodGroupTemplates": [
                        {"name": "rj-workers", **middle, "podGroupTemplates": [{"name": "job-workers", **job}]}
                    ],
                }
            ]
        },
        [
            ("CompositePodGroup", "jobset", root),
            ("PodGroup", "rj-leader", {"parent": "jobset", **leader}),
            ("CompositePodGroup", "rj-workers", {"parent": "jobset", **middle}),
            ("PodGroup", "job-workers", {"parent": "rj-workers", **job}),
            ("PodGroup", "job-workers", {"parent": "rj-workers", **job}),
        ],
    )


@pytest.mark.parametrize(
    ("claim", "stored"),
    [
        ({"resourceClaimName": "there"}, {"resourceClaimName": "there"}),
        ({"resourceClaimTemplateName": "made"}, {"resourceClaimTemplateName": "made"}),
    ],
)
def test_claims_with_the_one_source_that_they_have(claim, stored):
    entries = [entry("workers", resourceClaims=[{"name": "gpus", **claim}])]
    workload, [(_, _, spec)] = specs(jobset(workers("workers", 1, 1), scheduling={"replicatedJobs": entries}))
    assert spec["resourceClaims"] == [{"name": "gpus", **stored}]
    assert workload["podGroupTemplates"][0]["resourceClaims"] == [{"name": "gpus", **stored}]


def test_a_changed_minimum_is_in_the_group_and_not_in_its_template():
    js = jobset(workers("workers", 2, 2), scheduling={**GANG})
    found = forest(js)
    (group,) = found.roots
    assert build_group(js, found, group, "", 3)["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    templates = build_workload(js, found)["spec"]["podGroupTemplates"]
    assert templates[0]["schedulingPolicy"] == {"gang": {"minCount": 4}}


def claim_of(source):
    return {"resourceClaims": [{"name": "tpu", source: "x"}]}


def test_a_claim_of_another_source_is_another_group():
    one, other = (
        jobset(workers("slice", 1, 2), scheduling={"replicatedJobs": [entry("slice", job=claim_of(source))]})
        for source in ("resourceClaimName", "resourceClaimTemplateName")
    )
    forests = forest(one), forest(other)
    groups_of_both = [found.of_job("js-slice-0") for found in forests]
    stored = convert(build_group(one, forests[0], groups_of_both[0], "", 2), StoredGroup)
    assert [is_same(stored, group, "") for group in groups_of_both] == [True, False]


SENT = {"podGroupTemplates": [{"name": "a", **pods(2)}, {"name": "b", **BASIC}]}


def stored_with(number, **more):
    return {
        "podGroupTemplates": [{**t, **(more if n == number else {})} for n, t in enumerate(SENT["podGroupTemplates"])]
    }


@pytest.mark.parametrize(
    ("stored", "held"),
    [
        (SENT, True),
        (stored_with(0, disruptionMode={"single": {}}, priority=0, resourceClaims=None), True),
        ({**SENT, "compositePodGroupTemplates": None, "controllerRef": {"name": "js"}}, True),
        (stored_with(1, **pods(2)), False),
        (stored_with(1, **topology("rack")), False),
        ({"podGroupTemplates": SENT["podGroupTemplates"][:1]}, False),
        ({**SENT, "compositePodGroupTemplates": [{"name": "c"}]}, False),
        ({"podGroupTemplates": None}, False),
        ({}, False),
    ],
)
def test_what_an_api_server_adds_to_templates_is_no_difference(stored, held):
    assert contains(stored, SENT) == held
