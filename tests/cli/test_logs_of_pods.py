"""`jobset logs`: whose logs are shown, in which order, and what is said of those that are not there."""

from typing import Any

import pytest

from cli.operate import logs
from tests.support.explain.objects import job_of, made, pod_of
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
RUNNING: JSON = {"running": {"startedAt": "2026-01-02T03:00:00Z"}}


def ended(code: int, second: int = 0) -> JSON:
    return {"terminated": {"exitCode": code, "finishedAt": f"2026-01-02T03:04:{second:02}Z"}}


def a_set(**status: Any) -> JSON:
    return made(stored(jobset(rjob(replicas=2), namespace="team-a")), **status)


def pod(js: JSON, job: int, index: int, *containers: JSON, attempt: int = 0) -> JSON:
    """Its containers by their status; the first is called main. Its name is JOB-INDEX."""
    of = made(job_of(js, job, attempt=attempt))
    statuses = [{"name": "main", **one} for one in containers]
    body = pod_of(of, index, containers=statuses or [{"name": "main", "state": RUNNING}])
    body["metadata"]["labels"] |= {
        "batch.kubernetes.io/job-name": of["metadata"]["name"],
        "jobset.sigs.k8s.io/jobset-uid": js["metadata"]["uid"],
        "jobset.sigs.k8s.io/job-global-index": str(job),
    }
    return body


def prefixes(out: str) -> list[str]:
    return [line.partition("]")[0].removeprefix("[train-workers-") for line in out.splitlines()]


@pytest.mark.parametrize(("words", "first", "count"), [([], 200, 100), (["--tail=3"], 297, 3), (["--tail=-1"], 0, 300)])
def test_the_last_lines(command, connected, words: list[str], first: int, count: int):
    js = a_set()
    connected(js, pod(js, 0, 0)).logs = {("train-workers-0-0", "main"): "".join(f"{n}\n" for n in range(300))}
    lines = command("logs", "train", *words)[1].splitlines()
    assert (lines[0].split()[-1], len(lines)) == (str(first), count)


def test_one_job_and_one_container(command, connected):
    js = a_set()
    two = {"state": RUNNING}, {"state": RUNNING, "name": "side"}
    cluster = connected(js, pod(js, 0, 0, *two), pod(js, 1, 0, *two))
    cluster.logs = {(f"train-workers-{job}-0", name): "x\n" for job in (0, 1) for name in ("main", "side")}
    assert prefixes(command("logs", "train")[1]) == ["0/0 main", "0/0 side", "1/0 main", "1/0 side"]
    assert prefixes(command("logs", "train", "--job=train-workers-1")[1]) == ["1/0 main", "1/0 side"]
    assert prefixes(command("logs", "train", "-c", "side")[1]) == ["0/0 side", "1/0 side"]
    code, _, err = command("logs", "train", "-c", "sied")
    assert code == 1
    assert 'no container sied in these pods; did you mean "side"? there are: "main", "side"' in err
    assert (
        'no container trainer in these pods; there are: "main", "side"' in command("logs", "train", "-c", "trainer")[2]
    )


def test_init_containers_are_shown_until_they_have_succeeded(command, connected):
    js = a_set()
    one = pod(js, 0, 0, {"state": {"waiting": {"reason": "PodInitializing"}}})
    one["status"]["initContainerStatuses"] = [{"name": "ok", "state": ended(0)}, {"name": "bad", "state": ended(2)}]
    connected(js, one).logs = {("train-workers-0-0", name): "x\n" for name in ("ok", "bad")}
    code, out, err = command("logs", "train")
    assert (code, prefixes(out)) == (0, ["0/0 bad"])
    assert err == "[train-workers-0/0 main] has not started: PodInitializing\n"


def test_a_container_that_has_ended_before_has_started(command, connected):
    js = a_set()
    waits = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    connected(js, pod(js, 0, 0, {**waits, "restartCount": 7}), pod(js, 1, 0, {**waits, "restartCount": 1}))
    code, out, err = command("logs", "train")
    assert (code, out) == (1, "")
    first, second = err.splitlines()
    assert first == (
        "[train-workers-0/0 main] has ended 7 times and waits to start again: CrashLoopBackOff; kubectl logs -n team-a"
        " train-workers-0-0 -c main --previous shows what it wrote, if its node has kept that"
    )
    assert second.startswith("[train-workers-1/0 main] has ended 1 time and waits to start again")


def test_a_job_that_the_set_does_not_have_names_those_that_it_has(command, connected):
    connected(a_set())
    code, _, err = command("logs", "train", "--job", "foo")
    there = 'there are: "train-workers-0", "train-workers-1"'
    assert (code, err) == (1, f"jobset logs: JobSet team-a/train has no Job foo; {there}\n")


def test_a_job_that_has_not_started_says_so(command, connected):
    js = a_set()
    words = "logs", "train", "--job", "train-workers-1"
    connected(js)
    code, _, err = command(*words)
    no_pods = "there are no pods of Job train-workers-1 of JobSet team-a/train"
    assert (code, f"{no_pods}: that Job has not started: it does not exist yet; jobset explain train" in err) == (
        1,
        True,
    )
    job = made(job_of(js, 1))
    connected(js, job)
    assert f"{no_pods}: logs go with their pods" in command(*words)[2]
    job["spec"]["suspend"] = True
    connected(js, job)
    assert f"{no_pods}: that Job is suspended; jobset explain train" in command(*words)[2]


def test_pods_of_a_job_that_has_gone_with_the_end_of_its_set_were_there(command, connected):
    connected(a_set(terminalState="Completed"))
    assert "logs go with their pods" in command("logs", "train", "--job", "train-workers-1")[2]


def test_an_attempt_that_has_not_begun_is_not_one_whose_pods_are_gone(command, connected):
    connected(a_set(restarts=2))
    code, _, err = command("logs", "train", "--attempt=7")
    assert (code, err) == (1, "jobset logs: attempt 7 of JobSet team-a/train has not begun: the latest is 2\n")
    assert "pods of earlier attempts are deleted" in command("logs", "train", "--attempt=2")[2]


def test_pods_that_are_gone_are_named_with_how_they_failed(command, connected):
    failed = {
        "attempt": 3,
        "failedJob": "train-workers-0",
        "pod": "train-workers-0-0-x",
        "node": "n-7",
        "exitCode": 137,
    }
    connected(a_set(attemptHistory=[failed]))
    code, _, err = command("logs", "train")
    assert code == 1
    assert "attempt 3 failed: pod train-workers-0-0-x on node n-7, exit code 137; jobset explain train" in err


def test_a_pod_that_goes_meanwhile_does_not_stop_the_others(command, connected):
    js = a_set()
    cluster = connected(js, pod(js, 0, 0), pod(js, 1, 0))
    cluster.logs = {("train-workers-1-0", "main"): "x\n"}
    code, out, err = command("logs", "train")
    assert (code, prefixes(out)) == (0, ["1/0 main"])
    assert err == "[train-workers-0/0 main] has no log: no such pod\n"
    cluster.logs = {}
    assert command("logs", "train")[0] == 1


def test_a_right_that_is_missing_is_named_once(command, connected):
    connected(a_set()).refuse("/pods$", 'pods is forbidden: User "u" cannot list resource "pods" in API group ""')
    code, _, err = command("logs", "train")
    assert (code, err.count("ask for the right")) == (2, 1)
    assert err.endswith("ask for the right to list pods and to get pods/log in namespace team-a\n")


def test_kubelets_that_are_not_reached_are_one_line(command, connected):
    js = a_set()
    pods = [pod(js, job, index) for job in (0, 1) for index in (0, 1)]
    cluster = connected(js, *pods)
    nodes = {one["metadata"]["name"]: f"node-{number % 3}" for number, one in enumerate(pods)}
    cluster.unread = {
        name: f'Get "https://{node}:10250/containerLogs/team-a/{name}/main?tailLines=100": no route to host'
        for name, node in nodes.items()
    }
    code, out, err = command("logs", "train")
    assert (code, out) == (1, "")
    [line] = err.splitlines()
    assert line.startswith("[train-workers-0/0 main] and 3 more have no log, which the kubelet keeps: the API server ")
    assert "reaches neither that of node-0 nor those of 2 more nodes: no route to host; a node that is" in line
    cluster.unread["train-workers-1-1"] = "container main is waiting to start"
    assert [line.partition(" no log")[0] for line in command("logs", "train")[2].splitlines()] == [
        "[train-workers-0/0 main] and 2 more have",
        "[train-workers-1/1 main] has",
    ]


def test_what_is_left_out_is_said(command, connected, monkeypatch):
    monkeypatch.setattr(logs, "MAX_LOGS", 1)
    monkeypatch.setattr(logs, "MAX_BYTES", 4)
    monkeypatch.setattr(logs, "MAX_PODS", 2)
    js = a_set()
    cluster = connected(js, *(pod(js, 0, index) for index in range(3)))
    cluster.logs = {("train-workers-0-0", "main"): "123456\n"}
    code, out, err = command("logs", "train")
    assert (code, out) == (0, "[train-workers-0/0 main] 1234\n")
    assert "only 2 pods were looked at" in err
    assert "is cut after 0 MiB: kubectl logs train-workers-0-0 -c main -n team-a shows all" in err
    assert "1 more log: --job JOB" in err


@pytest.mark.parametrize("words", [["--attempt=-1"], ["--attempt=x"], ["--tail=x"], ["--job=A/b"]])
def test_wrong_flags(command, connected, words: list[str]):
    connected(a_set())
    code, _, err = command("logs", "train", *words)
    assert (code, "jobset logs: " in err) == (2, True)


class TestPrevious:
    """What the status keeps of pods that are gone."""

    ENDS: JSON = {
        "attemptHistory": [
            {"attempt": 0, "message": "the deadline was exceeded"},
            {"attempt": 1, "failedJob": "train-workers-0", "pod": "train-workers-0-0-x", "node": "n1", "container": "main",
             "exitCode": 3, "time": "2026-01-02T03:04:05Z", "terminationMessage": "Traceback:\nRuntimeError: boom"},
            {"attempt": 2, "failedJob": "train-workers-1", "pod": "train-workers-1-0-y", "container": "main", "exitCode": 4},
        ]
    }  # fmt: skip

    def test_the_last_lines_of_pods_that_failed(self, command, connected):
        connected(a_set(**self.ENDS))
        code, out, err = command("logs", "train", "--previous")
        assert (code, err) == (0, "")
        *lines, last = out.splitlines()
        assert last.startswith("[train-workers-1-0-y main] no termination message; with terminationMessagePolicy: ")
        assert lines == [
            "[train-workers-0-0-x main] attempt 1 failed on node n1 at 2026-01-02T03:04:05Z, exit code 3",
            "[train-workers-0-0-x main] Traceback:",
            "[train-workers-0-0-x main] RuntimeError: boom",
            "[train-workers-1-0-y main] attempt 2 failed, exit code 4",
        ]

    @pytest.mark.parametrize("words", [["--attempt=2"], ["--job", "train-workers-1"]])
    def test_those_that_are_asked_for(self, command, connected, words: list[str]):
        connected(a_set(**self.ENDS))
        out = command("logs", "train", "-p", *words)[1]
        assert {line.partition("]")[0] for line in out.splitlines()} == {"[train-workers-1-0-y main"}

    @pytest.mark.parametrize(("words", "code"), [(["--attempt=0"], 1), (["-c", "side"], 1), (["-f"], 2)])
    def test_there_are_none(self, command, connected, words: list[str], code: int):
        connected(a_set(**self.ENDS))
        assert command("logs", "train", "--previous", *words)[:2] == (code, "")
