"""Every default of docs/reference/defaulting.md, on create and on update, against an independent JSON-patch implementation."""

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.model.jsontree import dig
from tests.support.objects.jobsets import jobset, rjob, stored
from webhooks.jobset.default import MAX_NULLS, with_defaults


def applied(new: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    """The defaulted object; by the way it is checked that the patch leads to it and that the input was left alone."""
    before = copy.deepcopy(new)
    defaulted, operations = with_defaults(new, old)
    assert new == before
    assert jsonpatch.apply_patch(before, operations) == defaulted
    return defaulted


def test_metadata_of_templates_that_is_null_becomes_empty():
    """The schema refuses null there; a server-side apply that drops all of a client's labels leaves it."""
    rjobs = [rjob("a"), rjob("b")]
    rjobs[0]["template"]["metadata"] = None
    rjobs[1]["template"]["spec"]["template"]["metadata"] = None
    for old in (None, stored(jobset(rjob("a"), rjob("b")))):
        first, second = (r["template"] for r in applied(jobset(*rjobs), old)["spec"]["replicatedJobs"])
        assert first["metadata"] == {}
        assert second["spec"]["template"]["metadata"] == {}
        assert "metadata" not in second, "where nothing is, nothing is set"


def test_nulls_that_an_apply_leaves_are_removed():
    new = jobset(rjob("a", pod={"nodeSelector": None, "containers": [{"name": "c", "image": "i", "env": None}]}))
    template = new["spec"]["replicatedJobs"][0]["template"]
    template["metadata"] = {"labels": None, "annotations": {"a": "b"}}
    changed = applied(new, stored(jobset(rjob("a"))))["spec"]["replicatedJobs"][0]["template"]
    assert changed["metadata"] == {"annotations": {"a": "b"}}
    assert "nodeSelector" not in changed["spec"]["template"]["spec"]
    assert changed["spec"]["template"]["spec"]["containers"] == [{"name": "c", "image": "i"}]


def test_the_patch_of_an_object_full_of_nulls_is_bounded():
    new = jobset(rjob("a", pod={"nodeSelector": dict.fromkeys(map(str, range(2 * MAX_NULLS)))}))
    _, operations = with_defaults(new, stored(jobset(rjob("a"))))
    assert sum(operation["op"] == "remove" for operation in operations) == MAX_NULLS


def test_nulls_at_a_very_long_path_are_left_for_the_schema():
    """A patch repeats the path for each of them."""
    new = jobset(rjob("a", pod={"x" * 100_000: dict.fromkeys(map(str, range(2 * MAX_NULLS)))}))
    assert len(str(with_defaults(new, stored(jobset(rjob("a"))))[1])) < 1000


@pytest.mark.parametrize("spec", [None, "x", 3, [None, {"a": None}]])
def test_a_spec_that_is_no_object_is_left_to_the_schema(spec):
    new = {**jobset(rjob("a")), "spec": spec}
    with_defaults(new, stored(jobset(rjob("a"))))


@pytest.mark.parametrize("old", [None, stored(jobset(rjob(""), rjob("b")))])
@pytest.mark.parametrize("nameless", [{}, {"name": None}])
def test_names_that_the_schema_requires_are_empty_where_they_are_absent(old, nameless):
    js = jobset(rjob(""), rjob("b", dependsOn=[{"status": "Ready", **nameless}]), coordinator={"podIndex": 0})
    js["spec"]["replicatedJobs"][0] = {**nameless, "template": js["spec"]["replicatedJobs"][0]["template"]}
    spec = applied(js, old)["spec"]
    assert [r["name"] for r in spec["replicatedJobs"]] == ["", "b"]
    assert spec["replicatedJobs"][1]["dependsOn"] == [{"status": "Ready", "name": ""}]
    assert spec["coordinator"] == {"podIndex": 0, "replicatedJob": ""}


def test_what_is_set_stays():
    own = stored(
        jobset(
            rjob(job={"completionMode": "NonIndexed"}, pod={"restartPolicy": "Never"}),
            successPolicy={"operator": "Any"},
            startupPolicy={"startupPolicyOrder": "InOrder"},
            network={"enableDNSHostnames": False, "publishNotReadyAddresses": False, "subdomain": "s"},
            failurePolicy={"rules": [{"name": "mine", "action": "FailJobSet"}]},
            volumeClaimPolicies=[{"templates": [], "retentionPolicy": {"whenDeleted": "Retain"}}],
        )
    )
    assert with_defaults(own)[1] == []


@pytest.mark.parametrize(
    ("spec", "operations"),
    [
        (
            {"network": {"subdomain": "s"}},
            ["/spec/network/enableDNSHostnames", "/spec/network/publishNotReadyAddresses"],
        ),
        ({"network": {"enableDNSHostnames": False}}, ["/spec/network/publishNotReadyAddresses"]),
        (
            {"failurePolicy": {"rules": [{"name": "a"}, {"name": ""}, {"name": None}]}},
            ["/spec/failurePolicy/rules/1/name", "/spec/failurePolicy/rules/2/name"],
        ),
        ({"volumeClaimPolicies": [{"templates": []}]}, ["/spec/volumeClaimPolicies/0/retentionPolicy"]),
        ({"successPolicy": {}}, []),
    ],
)
def test_only_what_is_missing_is_touched(spec: dict[str, Any], operations: list[str]):
    js = stored(jobset())
    js["spec"] |= spec
    assert [operation["path"] for operation in with_defaults(js)[1]] == operations


def test_missing_parents_are_made_so_that_the_schema_sees_what_is_missing():
    js = jobset({"name": "a", "template": {}})
    template = applied(js)["spec"]["replicatedJobs"][0]["template"]
    assert template == {"spec": {"completionMode": "Indexed", "template": {"spec": {"restartPolicy": "OnFailure"}}}}
    assert applied({"metadata": {"name": "x"}})["spec"]["successPolicy"] == {"operator": "All"}


def test_an_empty_restart_policy_is_absent_and_an_empty_completion_mode_is_not():
    js = stored(jobset(rjob(job={"completionMode": ""}, pod={"restartPolicy": ""})))
    assert [operation["path"] for operation in with_defaults(js)[1]] == [
        "/spec/replicatedJobs/0/template/spec/template/spec/restartPolicy"
    ]


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ((), []),
        ((), ""),
        ((), "x"),
        (("replicatedJobs",), {}),
        (("replicatedJobs",), [None, 1, "a", {"name": "r", "template": []}]),
        (("replicatedJobs", 0, "template"), ""),
        (("replicatedJobs", 0, "template", "spec"), ""),
        (("replicatedJobs", 0, "template", "spec", "template"), ""),
        (("replicatedJobs", 0, "template", "spec", "template", "spec"), ""),
        (("replicatedJobs", 0, "template", "spec", "template", "spec", "restartPolicy"), 0),
        (("network",), 1),
        (("network",), ""),
        (("successPolicy",), ""),
        (("failurePolicy",), []),
        (("failurePolicy", "rules"), ""),
        (("failurePolicy", "rules"), [None, ""]),
        (("volumeClaimPolicies",), ["", None]),
    ],
)
def test_wrong_shapes_are_left_for_the_schema(path: tuple[str | int, ...], wrong: Any):
    js = stored(jobset(failurePolicy={}))
    parent: Any = js
    for part in ("spec", *path)[:-1]:
        parent = parent[part]
    parent[("spec", *path)[-1]] = wrong
    for old in (None, stored(jobset())):
        assert dig(applied(js, old)["spec"], *path) == wrong
    applied(stored(jobset()), js)


def test_an_update_does_not_change_what_was_stored_past_the_webhook():
    js = jobset()
    assert with_defaults(js, js)[1] == []


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(strategy, st.none(), JUNK)


POD = _maybe(
    st.fixed_dictionaries(
        {}, optional={"spec": _maybe(st.fixed_dictionaries({}, optional={"restartPolicy": _maybe(st.just("Never"))}))}
    )
)
JOB = _maybe(st.fixed_dictionaries({}, optional={"completionMode": _maybe(st.just("Indexed")), "template": POD}))
RJOB = _maybe(
    st.fixed_dictionaries(
        {},
        optional={
            "name": _maybe(st.sampled_from(["a", "b", ["a"], {"a": "b"}])),
            "template": _maybe(st.fixed_dictionaries({}, optional={"spec": JOB})),
        },
    )
)
SPEC = _maybe(
    st.fixed_dictionaries(
        {},
        optional={
            "network": _maybe(st.fixed_dictionaries({}, optional={"enableDNSHostnames": _maybe(st.booleans())})),
            "successPolicy": _maybe(st.fixed_dictionaries({}, optional={"minSucceeded": JUNK, "operator": JUNK})),
            "startupPolicy": JUNK,
            "failurePolicy": _maybe(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "rules": _maybe(
                            st.lists(_maybe(st.fixed_dictionaries({}, optional={"name": JUNK})), max_size=2)
                        )
                    },
                )
            ),
            "volumeClaimPolicies": _maybe(st.lists(JUNK, max_size=2)),
            "replicatedJobs": _maybe(st.lists(RJOB, max_size=3)),
        },
    )
)


@settings(deadline=None)
@given(new=SPEC, old=st.none() | SPEC)
def test_defaulting_never_raises_is_idempotent_and_its_patch_leads_there(new: Any, old: Any):
    before = None if old is None else {"spec": old}
    defaulted = applied({"spec": new}, before)
    assert with_defaults(defaulted, before)[1] == []


@pytest.mark.parametrize("name", [["a"], {"a": "b"}, 1, None])
def test_a_name_that_is_none_is_that_of_no_stored_replicated_job(name: Any):
    before = {"spec": {"replicatedJobs": [{"name": "a", "template": {}}]}}
    new = {"spec": {"replicatedJobs": [{"name": name, "template": {}}]}}
    [entry] = applied(new, before)["spec"]["replicatedJobs"]
    assert entry["template"]["spec"]["completionMode"] == "Indexed"
