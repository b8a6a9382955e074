"""The Python client decides as the commands `jobset wait` and `jobset logs` do, though it shares no code with them."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from api.jobset import JobSet as Stored
from cli.operate import log_order
from diagnose import states
from jobset_client import JobSet, operations
from jobset_client.core import Answer
from jobset_client.logs import Wanted
from jobset_client.states import STATES, reached
from tests.support.jobsets import jobset, rjob, stored
from tests.support.played_operations import listed, play, said

JSON = dict[str, Any]
CONDITIONS = ("Suspended", "RestartingJobSet", "Completed", "Failed")


def sets() -> list[JSON]:
    """Every combination of what the states depend on."""
    found = []
    for on, suspend, counts, ended in product(
        product(("True", "False", None), repeat=2),
        (None, False, True),
        ((0, 0, 0), (1, 1, 1), (2, 0, 2), (0, 0, 1), (0, 2, 0)),
        (None, *CONDITIONS[2:]),
    ):
        body = stored(jobset(rjob(replicas=2), namespace="a", **({} if suspend is None else {"suspend": suspend})))
        conditions = [*zip(CONDITIONS, on, strict=False), *([(ended, "True")] if ended else [])]
        counted = dict(zip(("ready", "succeeded", "active"), counts, strict=True), failed=0, suspended=0)
        body["status"] = {
            "conditions": [{"type": kind, "status": value} for kind, value in conditions if value],
            "replicatedJobsStatus": [{"name": "workers", **counted}],
            **({"terminalState": ended} if ended else {}),
        }
        found.append(body)
    return found


def test_a_set_is_in_the_same_states():
    for body in sets():
        mine, theirs = JobSet.from_dict(body), msgspec.convert(body, Stored)
        assert [state for state in STATES if reached(mine, state)] == [
            state for state in states.STATES if states.reached(theirs, state)
        ]


TIMES = st.sampled_from(["", "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"])
CONTAINERS = st.fixed_dictionaries(
    {"name": st.sampled_from("abc")},
    optional={
        kind: st.one_of(
            st.just({"running": {}}),
            st.builds(
                lambda code, at: {"terminated": {"exitCode": code, "finishedAt": at or None}}, st.integers(0, 1), TIMES
            ),
            st.builds(lambda why: {"waiting": {"reason": why}}, st.sampled_from(["", "ImagePullBackOff"])),
        )
        for kind in ("state", "lastState")
    },
)
PODS = st.builds(
    lambda job, index, attempt, inits, containers: {
        "metadata": {
            "name": f"js-w-{job}-{index}-{attempt}",
            "labels": {
                "jobset.sigs.k8s.io/restart-attempt": attempt,
                "batch.kubernetes.io/job-name": f"js-w-{job}",
                "jobset.sigs.k8s.io/job-global-index": job,
                "batch.kubernetes.io/job-completion-index": index,
            },
        },
        "status": {"initContainerStatuses": inits, "containerStatuses": containers},
    },
    st.sampled_from(["0", "2", "10"]),
    st.sampled_from(["0", "2", "11"]),
    st.sampled_from(["0", "1", "x"]),
    st.lists(CONTAINERS, max_size=2),
    st.lists(CONTAINERS, max_size=2),
)


@given(st.lists(PODS, max_size=4, unique_by=lambda pod: pod["metadata"]["name"]), st.sampled_from(["", "a"]))
def test_logs_come_in_the_same_order(pods: list[JSON], container: str):
    read = [msgspec.convert(pod, log_order.LogPod) for pod in pods]
    latest = [pod for pod in read if pod.attempt == log_order.newest(read)]
    wanted = [(log.pod, log.container, log.waits) for log in log_order.logs(latest, container)]
    body = jobset(namespace="a")
    answers = [said(body), listed(*pods), *[Answer(body=b"x")] * 99]
    played = play(operations.logs("train", "a", Wanted(container=container)), answers)
    found = [(log.pod, log.container, log.missing.removeprefix("it has not started: ")) for log in played.emitted]
    assert found == wanted
