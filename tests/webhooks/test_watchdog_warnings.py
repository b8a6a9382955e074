"""The variables of a watchdog have to be where an agent reads them: a warning elsewhere."""

from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob
from webhooks.jobset.answers import MAX_WARNING_LENGTH, warning_texts

ENGINE = engine(FeatureGates({"AllAlpha": True}))
WATCHDOG = [{"name": "A", "value": "1"}, {"name": "PROGRESS_DEADLINE_SECONDS", "value": "600"}]
TRAIN = {"name": "main", "image": "b", "command": ["python", "train.py"]}
WATCHED = {**TRAIN, "env": WATCHDOG}
BY_AGENT = {**WATCHED, "command": ["python3", "/opt/agent.pyz", "--", "python", "train.py"]}
SIDECAR = "one that runs beside a worker cannot end it; set failurePolicy.agent.mode: MainContainer"
FIRST = "it runs the first container only; set the variable there"
NONE = "nothing in this container is one; start the worker by the agent"


def one(*containers: JSON, mode: str = "", **pod: Any) -> JSON:
    spec = {"restartPolicy": "OnFailure", "serviceAccountName": "sa", "containers": [*containers], **pod}
    job = {"backoffLimit": 2147483647, "podReplacementPolicy": "Failed"}
    policy = {"restartStrategy": "InPlaceRestart", "agent": {"image": "registry/a", "mode": mode}} if mode else {}
    return jobset(rjob("a", parallelism=2, completions=2, pod=spec, job=job), failurePolicy=policy)


CASES = {
    "beside a sidecar": (one(WATCHED, mode="Sidecar"), "containers[0].env[1]", SIDECAR),
    "not in the main container": (one(TRAIN, {**WATCHED, "name": "b"}, mode="MainContainer"), "containers[1]", FIRST),
    "in an init container": (
        one(TRAIN, mode="MainContainer", initContainers=[{**WATCHED, "name": "i"}]),
        "init",
        FIRST,
    ),
    "without any agent": (one(WATCHED), "containers[0].env[1]", NONE),
    "in the main container": (one(WATCHED, mode="MainContainer"), "", ""),
    "by an agent of the template": (one(BY_AGENT), "", ""),
    "by an agent of the template, beside a sidecar": (one(BY_AGENT, mode="Sidecar"), "", ""),
    "an image that may begin with an agent": (one({**WATCHED, "command": []}), "", ""),
    "no watchdog": (one(TRAIN, mode="Sidecar"), "", ""),
}


@pytest.mark.parametrize("case", CASES)
def test_a_watchdog_that_no_agent_reads(case: str):
    js, place, words = CASES[case]
    found = ENGINE.findings_about_new(js)
    assert not found.errors
    texts = [text for text in warning_texts(found.warnings) if "watchdog-unread" in text]
    assert len(texts) == bool(place)
    for text in texts:
        assert place in text
        assert f"no agent reads it: {words}" in text
        assert len(text) < MAX_WARNING_LENGTH
