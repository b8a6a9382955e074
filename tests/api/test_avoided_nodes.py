"""The terms that keep pods away from nodes, merged with those that the template has."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.avoided_nodes import avoided_node_names, with_avoided_nodes
from api.jobset_status import FailedNode

JSON = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GPU = {"key": "gpu", "operator": "In", "values": ["h100"]}
NODES = ("n1", "n2", "n3")
LABELS = {"n1": {"gpu": "h100", "rack": "r1"}, "n2": {"gpu": "a100", "rack": "r1"}, "n3": {"gpu": "h100"}}
REQUIREMENTS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["gpu", "rack"]),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.lists(st.sampled_from(["h100", "a100", "r1"]), min_size=1, max_size=2),
    }
)
FIELDS = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.lists(st.sampled_from(NODES), min_size=1, max_size=1),
    }
)
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.none() | st.lists(REQUIREMENTS, max_size=2),
        "matchFields": st.none() | st.lists(FIELDS, max_size=2),
    },
)
FAILED = st.builds(
    FailedNode,
    name=st.sampled_from(NODES),
    topology_key=st.sampled_from(["", "rack"]),
    domain=st.sampled_from(["", "r1"]),
)


def job(affinity: JSON | None, topology: str = "") -> JSON:
    annotations = {"jobset.sigs.k8s.io/jobset-name": "js"}
    if topology:
        annotations["alpha.jobset.sigs.k8s.io/exclusive-topology"] = topology
    spec = {"containers": []} if affinity is None else {"containers": [], "affinity": affinity}
    template = {"metadata": {"annotations": annotations}, "spec": spec}
    return {"metadata": {"name": "j", "annotations": {}}, "spec": {"template": template}}


def terms_of(body: JSON) -> list[JSON] | None:
    affinity = body["spec"]["template"]["spec"].get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get(REQUIRED)
    return None if required is None else required["nodeSelectorTerms"]


def _meets(requirement: JSON, value: str | None) -> bool:
    return (value in requirement["values"]) == (requirement["operator"] == "In")


def fits(terms: list[JSON] | None, node: str) -> bool:
    """What kube-scheduler says of a node."""
    if terms is None:
        return True

    def meets(term: JSON) -> bool:
        labels, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
        if not labels and not fields:
            return False
        by_label = all(_meets(of, LABELS[node].get(of["key"])) for of in labels)
        return by_label and all(_meets(of, node) for of in fields)

    return any(meets(term) for term in terms)


@given(
    terms=st.none() | st.lists(TERMS, min_size=1, max_size=3), failed=st.lists(FAILED, max_size=3), rack=st.booleans()
)
def test_a_node_fits_if_it_did_before_and_is_not_avoided(
    terms: list[JSON] | None, failed: list[FailedNode], rack: bool
):
    body = job(None if terms is None else {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}, "rack" * rack)
    before = copy.deepcopy(body)
    wanted = with_avoided_nodes(body, failed)
    assert body == before, "the template is shared with the JobSet"
    domains = {node.domain for node in failed if rack and node.topology_key == "rack" and node.domain}
    for node in NODES:
        away = node in {of.name for of in failed} or LABELS[node].get("rack") in domains
        assert fits(terms_of(wanted), node) == (fits(terms, node) and not away)
    fields = [field for term in terms_of(wanted) or [] for field in term.get("matchFields") or []]
    assert all(len(field["values"]) == 1 for field in fields), "the API server takes one value of a field"


@pytest.mark.parametrize(
    "affinity", [None, {}, {"nodeAffinity": None}, {"nodeAffinity": {REQUIRED: None}}, {"nodeAffinity": {}}]
)
def test_what_is_left_out_or_null_is_filled_in(affinity: JSON | None):
    [term] = terms_of(with_avoided_nodes(job(affinity), [FailedNode(name="n1")])) or []
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}


def test_what_else_a_template_asks_for_stays():
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [GPU]}]}
    pods = {"podAntiAffinity": {"x": []}}
    wanted = with_avoided_nodes(
        job({**pods, "nodeAffinity": {**preferred, REQUIRED: required}}), [FailedNode(name="n1")]
    )
    affinity = wanted["spec"]["template"]["spec"]["affinity"]
    assert affinity["podAntiAffinity"] == pods["podAntiAffinity"]
    assert affinity["nodeAffinity"].items() >= preferred.items()
    assert terms_of(wanted)[0]["matchExpressions"] == [GPU]


def test_a_job_names_the_nodes_that_it_avoids():
    wanted = with_avoided_nodes(job(None), [FailedNode(name="n1"), FailedNode(name="n2")])
    assert avoided_node_names(wanted["metadata"]["annotations"]) == {"n1", "n2"}
    assert avoided_node_names({}) == frozenset()
    assert with_avoided_nodes(job(None), []) == job(None)
