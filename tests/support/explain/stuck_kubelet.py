"""Stuck situations in the words of a kubelet, from `kubelet.yaml` beside it; see `tests/support/explain/stuck.py`."""

from functools import partial
from pathlib import Path

import yaml

from diagnose.facts import Facts
from tests.support.explain.objects import event, facts, lease, made, pod_of
from tests.support.explain.stuck import JSON, POD, TABLE, Stuck, a_set, started

SITUATIONS: list[JSON] = yaml.load(Path(__file__).with_name("kubelet.yaml").read_text("utf-8"), yaml.CSafeLoader)


def status_of(situation: JSON) -> JSON:
    """The status of a pod in that situation."""
    main = {"name": "main", "ready": False, **situation.get("container", {})}
    init = [{"name": "prepare", **situation["init"]}] if "init" in situation else []
    given = {"containerStatuses": [main], "initContainerStatuses": init}
    return {"phase": "Running", **given, **situation.get("status", {})}


def make(situation: JSON) -> Facts:
    """A set with one such pod, and its Job, which goes on."""
    js, status = a_set(), status_of(situation)
    failed = status["phase"] == "Failed"
    job = started(js, **({"active": 0, "failed": 1} if failed else {}))
    job["spec"]["backoffLimit"] = 6
    warnings = [
        {
            **event(reason, note),
            "regarding": {"name": POD, "fieldPath": f"spec.containers{{{rest[0]}}}" if rest else ""},
        }
        for reason, note, *rest in situation.get("events", ())
    ]
    return facts(
        js, [job], [{**made(pod_of(job, node="node-1")), "status": status}], pod_warnings=warnings, lease=lease()
    )


for each in SITUATIONS:
    before, after = f"pod {POD} is not ready: ", ""
    if each.get("starts"):
        before = f"0 of 1 pod ready; pod {POD} is running, not ready: "
    elif status_of(each)["phase"] == "Failed":
        before, after = f"0 of 1 pod ready; pod {POD} has failed: ", "; 1 failure, backoffLimit allows 6"
    says = f"Job train-workers-0: {before}{each['says']}{after}"
    TABLE.append(Stuck(each["title"], says, each["fix"], partial(make, each), in_words_of_kubelet=True))
