"""KAI Scheduler makes one gang of a JobSet: a warning where ReplicatedJobs wait for pods of that gang, and only there."""

from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob
from webhooks.jobset.answers import MAX_WARNING_LENGTH, warning_texts

ENGINE = engine(FeatureGates({"AllAlpha": True}))
KAI = {"restartPolicy": "Never", "schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "b"}]}
OTHER = {**KAI, "schedulerName": "default-scheduler"}
STAGES = {"executionPolicy": {"executionPolicyOrder": "InOrder"}}
IN_ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}


def after(*names: str) -> list[JSON]:
    return [{"name": name, "status": "Complete"} for name in names]


def groups(*fields: JSON, at_once: str = "", **spec: Any) -> JSON:
    """A JobSet of ReplicatedJobs a, b and so on, placed by KAI unless their fields have a pod of their own."""
    js = jobset(*(rjob(name, **{"pod": KAI, **each}) for name, each in zip("abc", fields, strict=False)), **spec)
    js["metadata"]["annotations"] = {"kai.scheduler/batch-min-member": at_once} if at_once else {}
    return js


B_WAITS = {"dependsOn": after("a")}
WAIT_FOR_EVER = {
    "dependsOn": (groups({}, B_WAITS), 0, 2, 1),
    "stages": (groups({}, {}, {}, **STAGES), 0, 3, 1),
    "only the last one waits": (groups({}, {}, {"dependsOn": after("b")}), 0, 3, 2),
    "the annotation asks for too many": (groups({}, {}, B_WAITS, at_once="3"), 0, 3, 2),
    "an annotation above the number of ReplicatedJobs": (groups({}, B_WAITS, at_once="9"), 0, 2, 1),
    "one has another scheduler": (groups({"pod": OTHER}, {}), 1, 2, 1),
    "one of another scheduler waits for the gang": (groups({}, {"pod": OTHER, "dependsOn": after("a")}), 0, 2, 1),
}
BEGIN = {
    "no order": groups({}, {}),
    "startupPolicy": groups({}, {}, **IN_ORDER),
    "the annotation": groups({}, B_WAITS, at_once="1"),
    "two at once are enough": groups({}, {}, {"dependsOn": after("b")}, at_once="2"),
    "what is waited for has no Jobs": groups({"replicas": 0}, B_WAITS),
    "what waits has no Jobs": groups({}, {**B_WAITS, "replicas": 0}),
    "another scheduler": groups({"pod": OTHER}, {"pod": OTHER, **B_WAITS}),
    "one ReplicatedJob": groups({}),
}


def warned(js: JSON) -> list[str]:
    found = ENGINE.findings_about_new(js)
    assert not found.errors
    return [text for text in warning_texts(found.warnings) if "kai-scheduler-stages" in text]


@pytest.mark.parametrize("case", WAIT_FOR_EVER)
def test_a_gang_that_never_begins(case: str):
    js, index, wanted, at_once = WAIT_FOR_EVER[case]
    [text] = warned(js)
    assert len(text) < MAX_WARNING_LENGTH
    assert text.startswith(f"spec.replicatedJobs[{index}].template.spec.template.spec.schedulerName: ")
    assert f"before {wanted} ReplicatedJobs have pods, and at the start {at_once} have" in text
    assert f'annotate the JobSet kai.scheduler/batch-min-member: "{at_once}"' in text
    js["metadata"]["annotations"] = {"kai.scheduler/batch-min-member": str(at_once)}
    assert warned(js) == [], "the fix is enough"


@pytest.mark.parametrize("case", BEGIN)
def test_a_gang_that_begins(case: str):
    assert warned(BEGIN[case]) == []
