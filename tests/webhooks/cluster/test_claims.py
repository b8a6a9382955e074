"""Volume claims that exist: what of them a template has to equal (docs/reference/validation.md#volume-claims)."""

import pytest

from webhooks.jobset.cluster.claims import differences

BOUND = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "standard",
    "volumeMode": "Filesystem",
    "volumeName": "pv-1",
}


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
        {"resources": {"requests": {"storage": "1Gi"}, "limits": {}}, "storageClassName": None, "selector": None},
        {"resources": {"requests": {"storage": 1073741824}}, "dataSource": {}, "accessModes": []},
        BOUND,
    ],
)
def test_what_the_template_leaves_out_or_writes_another_way_is_no_difference(template):
    assert list(differences(template, BOUND)) == []


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ({"accessModes": ["ReadWriteMany"]}, [("accessModes", ["ReadWriteOnce"])]),
        ({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}, [("accessModes", ["ReadWriteOnce"])]),
        ({"resources": {"requests": {"storage": "2Gi"}}}, [("resources.requests.storage", "1Gi")]),
        ({"resources": {"limits": {"storage": "2Gi"}}}, [("resources.limits", None)]),
        (
            {"storageClassName": "fast", "volumeMode": "Block"},
            [("storageClassName", "standard"), ("volumeMode", "Filesystem")],
        ),
        ({"storageClassName": ""}, [("storageClassName", "standard")]),
        ({"selector": {"matchLabels": {"a": "b"}}}, [("selector", None)]),
    ],
)
def test_what_the_template_sets_has_to_be_there(template, expected):
    assert list(differences(template, BOUND)) == expected


def test_amounts_are_compared_as_such_beside_others_that_are_only_there():
    live = {"resources": {"requests": {"storage": "1Gi", "example.com/iops": "1k"}}}
    assert list(differences({"resources": {"requests": {"storage": "1024Mi"}}}, live)) == []
    assert list(differences({"resources": {"requests": {"storage": "2Gi"}}}, live)) == [
        ("resources.requests.storage", "1Gi")
    ]
