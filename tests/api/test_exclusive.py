"""Which pods are placed exclusively, how leaders are kept apart, and which leader counts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import keys
from api.exclusive import (
    TermForm,
    affinity_term,
    anti_affinity_term,
    former_leader,
    leads,
    priority_label,
    topology_of,
    valid_leader,
)
from tests.support.objects.placement import leader_of, moment

EXCLUSIVE = {keys.JOBSET_NAME: "js", keys.EXCLUSIVE_TOPOLOGY: "rack"}


@pytest.mark.parametrize(
    ("annotations", "topology"),
    [
        (EXCLUSIVE, "rack"),
        ({}, None),
        ({keys.JOBSET_NAME: "js"}, None),
        ({keys.EXCLUSIVE_TOPOLOGY: "rack"}, None),
        ({**EXCLUSIVE, keys.NODE_SELECTOR_STRATEGY: "true"}, None),
        ({**EXCLUSIVE, keys.NODE_SELECTOR_STRATEGY: ""}, None),
    ],
    ids=["exclusive", "no JobSet", "ordinary", "not of a JobSet", "node-selector strategy", "with any value"],
)
def test_what_is_placed_exclusively(annotations, topology):
    assert topology_of(annotations) == topology


@pytest.mark.parametrize(("index", "is_leader"), [("0", True), ("1", False), ("00", False), ("", False), (None, False)])
def test_the_leader_has_completion_index_0(index, is_leader):
    assert leads({} if index is None else {keys.COMPLETION_INDEX: index}) is is_leader


# What the scheduler makes of the terms, so that both forms can be compared by what they mean.


def expanded(term: dict, own: dict[str, str]) -> list[dict]:
    """The label selector after the API server has written out matchLabelKeys and mismatchLabelKeys for a pod."""
    more = [
        {"key": key, "operator": operator, "values": [own[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(field, ())
        if key in own
    ]
    return [*term["labelSelector"]["matchExpressions"], *more]


def selects(expressions: list[dict], labels: dict[str, str]) -> bool:
    """As metav1.LabelSelector: NotIn also holds where the label is missing."""
    holds = {
        "Exists": lambda key, _: key in labels,
        "In": lambda key, values: labels.get(key) in values,
        "NotIn": lambda key, values: labels.get(key) not in values,
    }
    return all(holds[e["operator"]](e["key"], e.get("values", ())) for e in expressions)


labels = st.fixed_dictionaries(
    {}, optional={keys.JOB_KEY: st.sampled_from(["a", "b", "c"]), keys.PRIORITY: st.sampled_from(["0", "-5", "100"])}
)


@given(st.sampled_from(["a", "b"]), st.sampled_from([None, "0", "100"]), labels)
def test_both_forms_keep_leaders_from_the_same_pods(own_key, priority, other):
    own = {keys.JOB_KEY: own_key} | ({} if priority is None else {keys.PRIORITY: priority})
    verdicts = set()
    for form in TermForm:
        term = anti_affinity_term("rack", own_key, priority, form)
        assert (term["topologyKey"], term["namespaceSelector"]) == ("rack", {}), "one domain of all namespaces"
        verdicts.add(selects(expanded(term, own), other))
    expected = other.get(keys.JOB_KEY, own_key) != own_key and priority in {None, other.get(keys.PRIORITY)}
    assert verdicts == {expected}


@given(labels)
def test_a_leader_is_drawn_to_the_pods_of_its_own_job_in_all_namespaces(other):
    term = affinity_term("rack", "a")
    assert (term["topologyKey"], term["namespaceSelector"]) == ("rack", {})
    assert selects(expanded(term, {keys.JOB_KEY: "a"}), other) is (other.get(keys.JOB_KEY) == "a")


def test_the_forms_are_named_as_in_the_settings():
    assert {form.value for form in TermForm} == {"LabelKeys", "Expressions"}
    assert "matchLabelKeys" in anti_affinity_term("rack", "a", "1", TermForm.LABEL_KEYS)
    assert "matchLabelKeys" not in anti_affinity_term("rack", "a", "1", TermForm.EXPRESSIONS)


leaders = st.lists(
    st.builds(
        lambda name, attempt, created, live: leader_of(
            name=f"p{name}", attempt=attempt, created=moment(created), is_live=live, node=f"n{name}"
        ),
        st.integers(0, 9),
        st.integers(0, 11),
        st.integers(0, 100),
        st.booleans(),
    ),
    max_size=6,
    unique_by=lambda pod: pod.name,
)


@given(leaders, st.randoms())
def test_the_newest_live_leader_counts_whatever_the_order(found, shuffle):
    chosen = valid_leader(found)
    alive = [pod for pod in found if pod.is_live]
    assert (chosen is None) == (not alive)
    if chosen is not None:
        assert chosen.is_live
        assert chosen.attempt == max(pod.attempt for pod in alive)
        assert chosen.created == max(pod.created for pod in alive if pod.attempt == chosen.attempt)
    shuffle.shuffle(found)
    assert valid_leader(iter(found)) == chosen, "the cache promises no order"


@given(leaders)
def test_a_former_leader_is_one_that_has_succeeded(found):
    ended = [leader_of(name=pod.name, created=pod.created, succeeded=not pod.is_live, is_live=False) for pod in found]
    chosen = former_leader(ended)
    assert (chosen is None) == (not any(pod.succeeded for pod in ended))
    if chosen is not None:
        assert chosen.succeeded
        assert chosen.created == max(pod.created for pod in ended if pod.succeeded)
    assert valid_leader(ended) is None


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_priority_has_a_label_of_its_own_that_the_api_takes(priority):
    value = priority_label(priority)
    assert re.fullmatch(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", value)
    assert len(value) <= 63
    assert int(value.replace("minus", "-")) == priority
    assert value == str(priority) or priority < 0, "as the Go JobSet writes it, wherever that can be stored"
