"""What pods of JobSets get at admission: operations that lead to the wanted pod and, done once, ask for nothing more.

tests/integration/test_pod_policies.py has the table of what becomes of each kind of pod, with the affinity of its user.
"""

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import keys
from api.exclusive import Domain, NoDomain, TermForm, affinity_term, anti_affinity_term
from tests.support.objects.jobsets import JSON, jobset, rjob
from tests.support.objects.pods import KNOWN, RACK, UNKNOWN, exclusive, pod_of
from webhooks.pod.mutate import mutations
from webhooks.pod.subject import UnreadablePodError

LABEL_KEYS = TermForm.LABEL_KEYS
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GATE = {"name": keys.PLACEMENT_GATE}


def with_priority(pod: JSON, priority: int | None = 100) -> JSON:
    """As the API server shows it to webhooks: the priority is resolved."""
    if priority is not None:
        pod["spec"]["priority"] = priority
    return pod


def leader(**pod: Any) -> JSON:
    return with_priority(pod_of(exclusive(rjob(pod=pod)), 0))


def follower(**pod: Any) -> JSON:
    return with_priority(pod_of(exclusive(rjob(pod=pod)), 1))


def after(pod: JSON, answer: Domain | NoDomain | None = None, form: TermForm = LABEL_KEYS) -> JSON:
    """The pod that its operations lead to. That they leave the given one as it is, is looked at as well."""
    given_pod = copy.deepcopy(pod)
    operations = mutations(pod, form, answer)
    assert pod == given_pod
    changed: JSON = jsonpatch.apply_patch(pod, operations)
    return changed


def key_of(pod: JSON) -> str:
    return str(pod["metadata"]["labels"][keys.JOB_KEY])


@pytest.mark.parametrize("form", TermForm)
def test_a_leader_gets_its_label_and_both_terms(form: TermForm):
    pod = leader()
    wanted = copy.deepcopy(pod)
    wanted["metadata"]["labels"][keys.PRIORITY] = "100"
    wanted["spec"]["affinity"] = {
        "podAffinity": {REQUIRED: [affinity_term(RACK, key_of(pod))]},
        "podAntiAffinity": {REQUIRED: [anti_affinity_term(RACK, key_of(pod), "100", form)]},
    }
    assert after(pod, form=form) == wanted


def test_terms_come_after_those_of_the_user():
    own = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    pod = leader(affinity={"podAntiAffinity": {REQUIRED: [own]}})
    assert after(pod)["spec"]["affinity"]["podAntiAffinity"][REQUIRED][0] == own


@pytest.mark.parametrize("missing", [None, {}, {"podAffinity": None, "podAntiAffinity": {REQUIRED: None}}])
def test_empty_parents_and_null_ones_do(missing: Any):
    pod = leader()
    pod["spec"]["affinity"] = missing
    assert {kind: len(terms[REQUIRED]) for kind, terms in after(pod)["spec"]["affinity"].items()} == {
        "podAffinity": 1,
        "podAntiAffinity": 1,
    }


def test_a_wrong_priority_in_the_label_is_replaced():
    pod = with_priority(pod_of(jobset()), 0)
    pod["metadata"]["labels"][keys.PRIORITY] = "77"
    assert after(pod)["metadata"]["labels"][keys.PRIORITY] == "0"


@pytest.mark.parametrize(("first", "second"), [tuple(TermForm), tuple(TermForm)[::-1]])
def test_a_term_in_the_other_form_is_not_doubled(first: TermForm, second: TermForm):
    assert mutations(after(leader(), form=first), second, None) == []


def test_a_leader_without_a_priority_has_no_label_and_excludes_every_priority():
    pod = pod_of(exclusive(), 0)
    changed = after(pod, form=TermForm.EXPRESSIONS)
    assert keys.PRIORITY not in changed["metadata"]["labels"]
    [term] = changed["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
    assert {e["key"] for e in term["labelSelector"]["matchExpressions"]} == {keys.JOB_KEY}


def test_a_follower_of_a_bound_leader_is_sent_after_it():
    pod = follower(nodeSelector={"zone": "z"})
    wanted = copy.deepcopy(pod)
    wanted["metadata"]["labels"][keys.PRIORITY] = "100"
    wanted["spec"]["nodeSelector"][RACK] = "rack-7"
    assert after(pod, KNOWN) == wanted


def test_what_the_leader_found_counts_for_more_than_the_template():
    assert after(follower(nodeSelector={RACK: "rack-1"}), KNOWN)["spec"]["nodeSelector"] == {RACK: "rack-7"}


@pytest.mark.parametrize("answer", [UNKNOWN, NoDomain("its Job has no leader pod"), None])
def test_any_other_follower_waits_at_the_gate(answer: NoDomain | None):
    pod = follower(schedulingGates=[{"name": "example.com/quota"}])
    wanted = copy.deepcopy(pod)
    wanted["metadata"]["labels"] |= {keys.PRIORITY: "100", keys.AWAITS_LEADER: "true"}
    wanted["spec"]["schedulingGates"] = [{"name": "example.com/quota"}, GATE]
    assert after(pod, answer) == wanted


def test_a_gated_pod_has_the_label_that_the_controller_watches():
    """A gate that stands in the template is kept, so somebody has to lift it."""
    changed = after(follower(schedulingGates=[GATE]), KNOWN)
    assert changed["spec"]["schedulingGates"] == [GATE]
    assert changed["spec"]["nodeSelector"] == {RACK: "rack-7"}
    assert changed["metadata"]["labels"][keys.AWAITS_LEADER] == "true"


def test_a_pod_that_is_bound_by_its_template_can_have_no_gate():
    changed = after(follower(nodeName="node-1"), UNKNOWN)
    assert "schedulingGates" not in changed["spec"]
    assert keys.AWAITS_LEADER not in changed["metadata"]["labels"]


def test_a_pod_without_labels_gets_them():
    pod = with_priority(pod_of(jobset()), -5)
    for empty in ({}, None):
        pod["metadata"]["labels"] = empty
        assert after(pod)["metadata"]["labels"] == {keys.PRIORITY: "minus5"}
    del pod["metadata"]["labels"]
    assert after(pod)["metadata"]["labels"] == {keys.PRIORITY: "minus5"}


def stranger() -> JSON:
    pod = leader()
    del pod["metadata"]["annotations"][keys.JOBSET_NAME]
    return pod


LEFT_ALONE = {
    "nothing": {},
    "an ordinary pod": with_priority({"metadata": {"name": "p"}, "spec": {"containers": []}}),
    "a pod with the label of a JobSet alone": stranger(),
    "the node-selector strategy, index 0": with_priority(pod_of(exclusive(node_selector=True), 0)),
    "the node-selector strategy, index 1": with_priority(pod_of(exclusive(node_selector=True), 1)),
    "no priority and nothing exclusive": pod_of(jobset()),
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_left_alone(case: str):
    assert mutations(LEFT_ALONE[case], LABEL_KEYS, KNOWN) == []


BAD = {
    "labels": ("metadata", {"labels": {"a": 1}}),
    "a list of labels": ("metadata", {"labels": ["a"]}),
    "owners": ("metadata", {"ownerReferences": {"name": "x"}}),
    "an owner without a name": ("metadata", {"ownerReferences": [{"controller": True}]}),
    "terms": ("spec", {"affinity": {"podAffinity": {REQUIRED: {"a": 1}}}}),
    "a term": ("spec", {"affinity": {"podAntiAffinity": {REQUIRED: ["a"]}}}),
    "affinity": ("spec", {"affinity": []}),
    "gates": ("spec", {"schedulingGates": ["a"]}),
    "no gate": ("spec", {"schedulingGates": [None]}),
    "a selector": ("spec", {"nodeSelector": {"a": 1}}),
    "a priority": ("spec", {"priority": "high"}),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read_is_reported_with_its_place_and_not_quoted(case: str):
    part, change = BAD[case]
    pod = leader()
    pod[part] |= change
    with pytest.raises(UnreadablePodError, match=r"the object is not a pod: .+ - at `\$\.") as error:
        mutations(pod, LABEL_KEYS, None)
    assert "high" not in str(error.value)


NAMES = st.text("abc./~", min_size=1, max_size=6)
LABELS = st.dictionaries(NAMES, NAMES, max_size=3)
TERM = st.fixed_dictionaries({"topologyKey": NAMES, "labelSelector": st.fixed_dictionaries({"matchLabels": LABELS})})
TERMS = st.none() | st.fixed_dictionaries({}, optional={REQUIRED: st.none() | st.lists(TERM, max_size=2)})
SPECS = st.fixed_dictionaries(
    {"containers": st.just([{"name": "main"}])},
    optional={
        "priority": st.none() | st.integers(-(2**31), 2**31 - 1),
        "nodeName": NAMES,
        "nodeSelector": st.none() | st.dictionaries(NAMES | st.just(RACK), NAMES, max_size=3),
        "schedulingGates": st.none() | st.lists(st.builds(lambda n: {"name": n}, NAMES) | st.just(GATE), max_size=3),
        "affinity": st.none()
        | st.fixed_dictionaries({}, optional={"podAffinity": TERMS, "podAntiAffinity": TERMS, "nodeAffinity": TERMS}),
    },
)
ANNOTATIONS = st.fixed_dictionaries(
    {keys.JOBSET_NAME: st.just("train")},
    optional={
        keys.EXCLUSIVE_TOPOLOGY: st.sampled_from([RACK, "example.com/a~b"]),
        keys.COMPLETION_INDEX: st.sampled_from(["0", "1"]),
        keys.NODE_SELECTOR_STRATEGY: st.just("true"),
    },
)
KEYED = st.builds(
    lambda labels, ours: {**labels, **ours},
    LABELS,
    st.fixed_dictionaries({}, optional={keys.JOB_KEY: NAMES, keys.PRIORITY: NAMES, keys.AWAITS_LEADER: NAMES}),
)
METAS = st.fixed_dictionaries({"annotations": ANNOTATIONS}, optional={"labels": st.none() | KEYED})
PODS = st.fixed_dictionaries({"metadata": METAS, "spec": SPECS})
ANSWERS = st.sampled_from([KNOWN, UNKNOWN, None])


def kept(old: Any, new: Any, path: tuple[str, ...] = ()) -> bool:
    """Whether all of `old` is in `new`: members of objects, items of lists in their order at the front."""
    if path in OVERWRITTEN or old is None:
        return True
    if isinstance(old, dict):
        return isinstance(new, dict) and all(key in new and kept(old[key], new[key], (*path, key)) for key in old)
    if isinstance(old, list):
        return isinstance(new, list) and new[: len(old)] == old
    return bool(old == new)


OVERWRITTEN = {
    ("metadata", "labels", keys.PRIORITY),
    ("metadata", "labels", keys.AWAITS_LEADER),
    ("spec", "nodeSelector", RACK),
    ("spec", "nodeSelector", "example.com/a~b"),
}


@given(PODS, ANSWERS, ANSWERS, st.sampled_from(TermForm), st.sampled_from(TermForm))
def test_done_once_nothing_is_left_to_do_and_nothing_is_lost(pod, answer, later, form, other):
    changed = after(pod, answer, form)
    assert kept(pod, changed)
    assert mutations(changed, form, answer) == []
    again = after(changed, later, other)
    assert kept(changed, again)
    for path in (("podAffinity", REQUIRED), ("podAntiAffinity", REQUIRED)):
        before, now = (((p["spec"].get("affinity") or {}).get(path[0]) or {}).get(path[1]) or [] for p in (pod, again))
        assert len(now) <= len(before) + 1
