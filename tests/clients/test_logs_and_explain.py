"""Logs and explanations of the Python client, from answers of an API server."""

from typing import Any

import pytest

from jobset_client import errors, operations
from jobset_client.core import Answer, Emitter
from jobset_client.logs import MAX_BYTES, MAX_LOGS, PodLog
from tests.support.objects.jobsets import jobset, rjob
from tests.support.played.operations import listed, play, said, status

JSON = dict[str, Any]


def a_set(**more: Any) -> JSON:
    body = jobset(rjob(replicas=2), namespace="team-a", **more.pop("spec", {}))
    body["metadata"]["uid"] = "u"
    return body | {"status": more}


def pod(
    job: int, index: int = 0, *, attempt: int = 0, failed: str = "", waits: str = "", init: int | None = None
) -> JSON:
    labels = {
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
        "batch.kubernetes.io/job-name": f"train-workers-{job}",
        "jobset.sigs.k8s.io/job-global-index": str(job),
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    state: JSON = {"waiting": {"reason": waits}} if waits else {"running": {}}
    if failed:
        state = {"terminated": {"exitCode": 1, "finishedAt": failed}}
    before = (
        []
        if init is None
        else [{"name": "fetch", "state": {"terminated": {"exitCode": init, "finishedAt": "2026-01-01T00:00:00Z"}}}]
    )
    return {
        "metadata": {"name": f"train-workers-{job}-{index}-abcde", "labels": labels},
        "status": {"containerStatuses": [{"name": "main", "state": state}], "initContainerStatuses": before},
    }


def logs(**wanted: Any) -> Emitter[PodLog]:
    return operations.logs("team-a", "train", **wanted)


def order(*pods: JSON, **wanted: Any) -> list[str]:
    played = play(logs(**wanted), [said(a_set()), listed(*pods), *[Answer(body=b"x\n")] * 9])
    return [f"{one.job}/{one.index} {one.container}" for one in played.emitted]


def test_who_failed_first_comes_first_then_jobs_and_indexes_as_numbers():
    pods = [
        pod(10),
        pod(2, 11),
        pod(2, 2),
        pod(3, failed="2026-01-01T00:00:02Z"),
        pod(4, failed="2026-01-01T00:00:01Z"),
    ]
    assert order(*pods) == [f"train-workers-{name} main" for name in ("4/0", "3/0", "2/2", "2/11", "10/0")]


def test_only_the_latest_attempt_unless_another_is_asked_for():
    pods = [pod(0), pod(1, attempt=1)]
    assert order(*pods) == ["train-workers-1/0 main"]
    assert order(*pods, attempt=0) == ["train-workers-0/0 main"]


def test_init_containers_are_shown_while_they_have_not_succeeded_or_when_named():
    pods = [pod(0, init=0), pod(1, init=1)]
    assert order(*pods) == ["train-workers-1/0 fetch", "train-workers-1/0 main", "train-workers-0/0 main"]
    assert len(order(*pods, container="fetch")) == 2


def test_each_line_says_whose_it_is():
    played = play(logs(job="train-workers-0", tail=5), [said(a_set()), listed(pod(0)), Answer(body=b"one\ntwo\xff\n")])
    assert str(played.emitted[0]) == "[train-workers-0/0 main] one\n[train-workers-0/0 main] two\ufffd"
    assert dict(played.calls[1].query)["labelSelector"] == (
        "jobset.sigs.k8s.io/jobset-uid=u,batch.kubernetes.io/job-name=train-workers-0"
    )
    assert played.calls[2].path == "/api/v1/namespaces/team-a/pods/train-workers-0-0-abcde/log"
    assert played.calls[2].query == (("container", "main"), ("limitBytes", str(MAX_BYTES)), ("tailLines", "5"))


def test_a_log_that_is_not_there_is_said_and_the_others_are_given():
    gone = status(404, "NotFound", 'pods "x" not found', name="x")
    answers = [said(a_set()), listed(pod(0, waits="ImagePullBackOff"), pod(1), pod(2)), gone, Answer(body=b"x")]
    found = [(one.text, one.missing) for one in play(logs(), answers).emitted]
    assert found[0] == ("", "it has not started: ImagePullBackOff")
    assert 'pods "x" not found' in found[1][1]
    assert found[2] == ("x", "")


def test_no_right_to_read_logs_is_an_error():
    played = play(logs(), [said(a_set()), listed(pod(0)), status(403, "Forbidden", "no pods/log", name="x")])
    assert isinstance(played.error, errors.ForbiddenError)


def test_no_pods_says_how_the_last_attempt_failed():
    history = [{"attempt": 2, "pod": "train-workers-0-0-x", "node": "n1", "exitCode": 3}]
    played = play(logs(), [said(a_set(attemptHistory=history)), listed()])
    assert isinstance(played.error, errors.RefusedError)
    assert "attempt 2 failed: pod train-workers-0-0-x on node n1, exit code 3" in str(played.error)
    assert "of attempt 7" in str(play(logs(attempt=7), [said(a_set()), listed(pod(0))]).error)


def test_a_container_that_there_is_not_is_answered_with_those_that_there_are():
    def refusal(container: str) -> str:
        return str(play(logs(container=container), [said(a_set()), listed(pod(0))]).error)

    assert refusal("other").endswith('no container other in its pods; there are: "main"')
    assert refusal("mainn").endswith('no container mainn in its pods; did you mean "main"? there are: "main"')


def test_a_large_set_gives_a_bounded_number_of_logs():
    pods = [pod(number) for number in range(MAX_LOGS + 5)]
    played = play(logs(), [said(a_set()), listed(*pods), *[Answer(body=b"x")] * 999])
    assert (len(played.emitted), len(played.calls)) == (MAX_LOGS + 1, MAX_LOGS + 2)
    assert "5 more containers" in str(played.emitted[-1])
    one_more = play(logs(), [said(a_set()), listed(*pods[: MAX_LOGS + 1]), *[Answer(body=b"x")] * 999])
    assert "1 more container:" in str(one_more.emitted[-1])


@pytest.mark.parametrize("body", [{}, {"metadata": None, "status": None}, {"metadata": {"labels": None}, "status": {}}])
def test_a_pod_of_which_little_is_known_has_no_containers(body: JSON):
    played = play(logs(), [said(a_set()), listed(body)])
    assert "no container that has been created yet" in str(played.error)


def explained(body: JSON, *events: JSON) -> list[str]:
    played = play(operations.explain("team-a", "train"), [said(body), listed(*events)])
    assert played.error is None
    return str(played.result).splitlines()


COUNTS = {"name": "workers", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
LAST = "not looked at: Jobs, pods, nodes and the scheduler: jobset explain train -n team-a"


def test_a_set_that_starts():
    event = {"type": "Warning", "reason": "Odd", "message": "b\n c", "lastTimestamp": "2026-01-02T00:00:00Z"}
    older = {"reason": "Old", "eventTime": "2026-01-01T00:00:00.5Z", "message": None}
    body = a_set(replicatedJobsStatus=[COUNTS], restarts=2, restartsCountTowardsMax=1, currentStage="workers (1/1)")
    body["spec"]["failurePolicy"] = {"maxRestarts": 3}
    assert explained(body, event, older) == [
        "JobSet team-a/train: waits",
        "  stage: workers (1/1)",
        "  workers: of 2 Jobs 1 ready, 1 active",
        "  restarts: 2, of which 1 counts towards maxRestarts 3",
        "  event Normal Old: ",
        "  event Warning Odd: b c",
        LAST,
    ]


def test_a_set_that_nobody_has_seen():
    assert explained(a_set())[1] == (
        "  workers: none of 2 Jobs is counted yet: no manager has seen it, or it waits for its stage"
    )


@pytest.mark.parametrize(
    ("status", "line"),
    [
        ([], "  workers: its Job is not counted yet: no manager has seen it, or it waits for its stage"),
        ([COUNTS], "  workers: of 1 Job 1 ready, 1 active"),
    ],
)
def test_a_single_job_is_one_job(status: list[JSON], line: str):
    body = a_set(replicatedJobsStatus=status)
    body["spec"]["replicatedJobs"][0]["replicas"] = 1
    assert line in explained(body)


def test_a_set_that_has_failed_says_why_and_where():
    failed = {"type": "Failed", "status": "True", "message": "jobset failed", "reason": "FailedJobs"}
    attempt = {"attempt": 1, "message": "BackoffLimitExceeded", "pod": "p", "node": "n", "exitCode": 137}
    lines = explained(a_set(terminalState="Failed", conditions=[failed], attemptHistory=[attempt]))
    assert lines[0] == "JobSet team-a/train: failed"
    assert "  attempt 1 failed: BackoffLimitExceeded, pod p on node n, exit code 137" in lines
    assert "  Failed: jobset failed" in lines


def test_a_gang_that_is_not_scheduled_says_what_the_scheduler_says():
    held = {"type": "PodGroupsInitiallyScheduled", "status": "False", "message": "0/3 nodes"}
    assert "  not PodGroupsInitiallyScheduled: 0/3 nodes" in explained(a_set(conditions=[held]))


def test_events_that_may_not_be_read_are_named():
    answers = [said(a_set()), status(403, "Forbidden", "events are secret", name="x")]
    text = str(play(operations.explain("team-a", "train"), answers).result)
    assert "not looked at: events: cannot list the events of JobSet team-a/train: events are secret" in text


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (a_set(spec={"suspend": True}), "is being suspended"),
        (a_set(spec={"suspend": True}, conditions=[{"type": "Suspended", "status": "True"}]), "is suspended"),
        (a_set(conditions=[{"type": "RestartingJobSet", "status": "True"}]), "restarts"),
        (a_set(replicatedJobsStatus=[COUNTS | {"ready": 2}]), "runs"),
        (a_set(terminalState="Completed"), "completed"),
    ],
)
def test_the_state_in_words(body: JSON, state: str):
    assert explained(body)[0] == f"JobSet team-a/train: {state}"


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (
            {"pod": "p", "node": "n", "container": "main", "exitCode": 137, "podReason": "OOMKilled"},
            "container main of pod p on node n, exit code 137 (OOMKilled)",
        ),
        ({"pod": "p", "node": "n", "podReason": "Evicted: low on memory"}, "pod p on node n (Evicted: low on memory)"),
        (
            {"pod": "p", "exitCode": 1, "terminationMessage": "Traceback:\n  \u001b[31mValueError\u001b[0m: no data\n"},
            "pod p, exit code 1 ([31mValueError [0m: no data)",
        ),
        ({"podReason": "Evicted"}, "Evicted"),
    ],
)
def test_how_an_attempt_ended_is_said_in_the_words_of_the_kubelet(end: JSON, words: str):
    failed = {"attempt": 1, "message": "BackoffLimitExceeded", **end}
    assert f"  attempt 1 failed: BackoffLimitExceeded, {words}" in explained(a_set(attemptHistory=[failed]))
