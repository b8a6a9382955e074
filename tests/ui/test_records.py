"""What is kept of JobSets and pods."""

import msgspec
import pytest

from api.pod import DetailedPod
from tests.support.explain.objects import exclusive, job_of, made, pod_of
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.objects.page_rows import a_set, counts
from ui.records import LONGEST_TEXT, MAX_ENTRIES, placed_pod, topologies

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def test_of_a_jobset_no_template_is_kept_however_large():
    large = rjob(parallelism=4, completions=8, pod={"containers": [{"name": "c", "env": ["x" * 100_000]}]})
    js = a_set(
        large,
        meta={"annotations": {"secret": "y" * 10_000}, "labels": {"team": "a"}},
        replicatedJobsStatus=[counts(ready=1)],
        conditions=[{"type": "Failed", "status": "True", "message": "z" * 30_000}],
    )
    assert len(msgspec.json.encode(js)) < 1500 + LONGEST_TEXT
    (kept,) = js.spec.replicated_jobs
    assert (kept.parallelism, kept.completions) == (4, 8)


def test_lists_that_a_tenant_makes_long_are_cut():
    js = a_set(*[rjob(f"r{index}") for index in range(MAX_ENTRIES + 50)])
    assert len(js.spec.replicated_jobs) == MAX_ENTRIES


def marked(**annotations):
    body = rjob()
    body["template"]["metadata"] = {"annotations": annotations}
    return body


BLOCK, RACK = ({"schedulingConstraints": {"topology": [{"key": key}]}} for key in ("block", "rack"))
ENTRIES = [{"targetReplicatedJobs": ["workers"], **BLOCK, "job": RACK}, {"targetReplicatedJobs": ["driver"]}]


@pytest.mark.parametrize(
    ("js", "found"),
    [
        (a_set(), ()),
        (a_set(marked(**{EXCLUSIVE: "rack"})), ("rack",)),
        (a_set(marked(**{EXCLUSIVE: "rack", "alpha.jobset.sigs.k8s.io/node-selector": "true"})), ("rack",)),
        (a_set(rjob("a"), marked(**{EXCLUSIVE: "zone"}), meta={"annotations": {EXCLUSIVE: "rack"}}), ("rack", "zone")),
        (a_set(exclusive(on_pods=True)), ("rack",)),
        (a_set(spec={"scheduling": BLOCK}), ("block",)),
        (a_set(spec={"scheduling": {}}), ()),
        (a_set(spec={"scheduling": {"replicatedJobs": ENTRIES}}), ("block", "rack")),
    ],
)
def test_the_topologies_of_a_set(js, found):
    assert topologies(js) == found


@pytest.mark.parametrize(
    ("pod", "meta", "state"),
    [
        ({"node": "n"}, {}, "Ready"),
        ({"node": "n", "containers": [{"name": "main"}]}, {}, "Running"),
        ({}, {}, "Pending"),
        ({"node": "n"}, {"deletionTimestamp": "2026-11-21T14:05:03Z"}, "Ending"),
        ({"node": "n", "phase": "Failed"}, {"deletionTimestamp": "2026-11-21T14:05:03Z"}, "Failed"),
    ],
)
def test_a_pod_has_one_state(pod, meta, state):
    job = made(job_of(made(stored(jobset())), 0))
    body = made(pod_of(job, 0, **pod))
    body["metadata"] |= meta
    kept = placed_pod(msgspec.convert(body, DetailedPod))
    assert (kept.state, kept.jobset, kept.job, kept.node) == (state, "train", "train-workers-0", pod.get("node", ""))
    assert kept.metadata.uid == body["metadata"]["uid"]
