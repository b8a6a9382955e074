"""What counts as the same template (docs/reference/validation.md#when-two-templates-are-equal), one case per rule."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kube.model.jsontree import dig
from kube.model.semantic import differences, semantically_equal

SAME = {
    "null list": ({"tolerations": None}, {}),
    "empty list": ({"tolerations": []}, {}),
    "empty map": ({"labels": {}}, {}),
    "empty value struct": ({"metadata": {}}, {}),
    "nested empty value structs": ({"template": {"metadata": {"labels": {}}, "spec": {}}}, {}),
    "zero of a value field": ({"hostNetwork": False, "stdin": False, "hostname": "", "replicas": 0}, {}),
    "quantities by amount": ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1000m"}}),
    "quantity as number": ({"requests": {"cpu": 2}}, {"requests": {"cpu": "2"}}),
    "quantity in a pointer": ({"sizeLimit": "1Gi"}, {"sizeLimit": "1024Mi"}),
    "zero quantity of a value": ({"divisor": "0"}, {}),
    "empty resources": ({"containers": [{"resources": {"limits": {}}}]}, {"containers": [{}]}),
    "order of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "nothing at all": (None, []),
}
DIFFERENT = {
    "pointer zero": ({"parallelism": 0}, {}),
    "pointer false": ({"suspend": False}, {}),
    "pointer text": ({"storageClassName": ""}, {}),
    "grace of zero": ({"terminationGracePeriodSeconds": 0}, {}),
    "toleration of zero seconds": ({"tolerationSeconds": 0}, {}),
    "size limit of zero": ({"sizeLimit": "0"}, {}),
    "empty pointer struct": ({"securityContext": {}}, {}),
    "empty volume source": ({"volumes": [{"name": "a", "emptyDir": {}}]}, {"volumes": [{"name": "a"}]}),
    "order of a list": ({"command": ["a", "b"]}, {"command": ["b", "a"]}),
    "empty text in a map": ({"labels": {"a": ""}}, {"labels": {}}),
    "zero in a quantity map": ({"limits": {"cpu": "0"}}, {}),
    "amounts": ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "2"}}),
    "a label is not a quantity": ({"labels": {"cpu": "1"}}, {"labels": {"cpu": "1000m"}}),
    "network flag": ({"enableDNSHostnames": False}, {}),
}


@pytest.mark.parametrize("case", SAME)
def test_same(case: str):
    one, other = SAME[case]
    assert semantically_equal(one, other)
    assert semantically_equal(other, one)


@pytest.mark.parametrize("case", DIFFERENT)
def test_different(case: str):
    one, other = DIFFERENT[case]
    assert not semantically_equal(one, other)
    assert not semantically_equal(other, one)


KEYS = ("template", "metadata", "labels", "spec", "limits", "emptyDir", "name", "suspend", "items", "affinity")
TREES = st.recursive(
    st.sampled_from([None, 0, 1, False, True, "", "a", "1", "1000m"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@example({}, {"labels": {"name": None}})
@given(TREES, TREES)
def test_there_are_differences_exactly_where_the_meaning_differs(one: Any, other: Any):
    places = list(differences({"x": one}, {"x": other}))
    assert bool(places) == (not semantically_equal({"x": one}, {"x": other}))
    assert len(set(places)) == len(places)
    assert all(dig({"x": one}, *place) != dig({"x": other}, *place) for place in places)
