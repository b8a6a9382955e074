"""`jobset logs -f`: what pods write until their set ends, of each attempt, once."""

import copy
import itertools
from typing import Any

import pytest

from cli.operate import follow
from tests.cli.test_logs_of_pods import RUNNING, a_set, ended, pod
from tests.support.explain.objects import made

JSON = dict[str, Any]


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(follow, "RETRY_PAUSE", 0.01)


VERSIONS = itertools.count(2)


def newer(body: JSON) -> JSON:
    later = copy.deepcopy(body)
    later["metadata"]["resourceVersion"] = str(next(VERSIONS))
    return later


def after(body: JSON, pod_name: str, **status: Any) -> JSON:
    """The same object later, when a line of this pod was read."""
    later = newer(body)
    later["status"] |= status
    return {**later, "after": pod_name}


def done(js: JSON) -> JSON:
    return {"terminalState": "Completed", "conditions": []}


def finished(one: JSON) -> list[JSON]:
    return [{"name": "main", "state": ended(0)}]


def test_it_goes_on_until_the_set_has_ended(command, connected):
    js = a_set()
    one = pod(js, 0, 0, {"state": RUNNING})
    cluster = connected(js, one)
    cluster.logs = {("train-workers-0-0", "main"): "one\n\nthree\n"}
    cluster.changes = [
        ("MODIFIED", after(one, "train-workers-0-0", containerStatuses=finished(one))),
        ("MODIFIED", after(js, "train-workers-0-0", **done(js))),
    ]
    code, out, err = command("logs", "train", "-f")
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"[train-workers-0/0 main] {line}" for line in ("one", "", "three")]


def test_a_long_line_that_is_read_again_is_written_once(command, connected, monkeypatch):
    monkeypatch.setattr(follow, "MAX_LINE_BYTES", 50)
    js = a_set()
    one = pod(js, 0, 0, {"state": RUNNING})
    cluster = connected(js, one)
    cluster.logs = {("train-workers-0-0", "main"): "0123456789" * 10 + "\n"}
    cluster.changes = [
        ("MODIFIED", after(one, "train-workers-0-0", containerStatuses=finished(one))),
        ("MODIFIED", after(js, "train-workers-0-0", **done(js))),
    ]
    code, out, _ = command("logs", "train", "-f")
    assert code == 0
    assert "".join(line.removeprefix("[train-workers-0/0 main] ") for line in out.splitlines()) == "0123456789" * 10


def test_a_new_attempt_is_followed(command, connected):
    js = a_set()
    old, new = pod(js, 0, 0, {"state": RUNNING}), pod(js, 1, 0, {"state": ended(0)}, attempt=1)
    cluster = connected(js, old)
    cluster.logs = {("train-workers-0-0", "main"): "old\n", ("train-workers-1-0", "main"): "new\n"}
    cluster.changes = [
        ("DELETED", after(old, "train-workers-0-0")),
        ("ADDED", after(new, "train-workers-0-0")),
        ("MODIFIED", after(js, "train-workers-1-0", **done(js))),
    ]
    code, out, err = command("logs", "train", "-f")
    assert (code, err) == (0, "jobset logs: attempt 1 begins\n")
    assert out.splitlines() == ["[train-workers-0/0 main] old", "[train-workers-1/0 main] new"]


def test_no_more_than_the_limit_is_followed_at_once_and_the_rest_afterwards(command, connected, monkeypatch):
    monkeypatch.setattr(follow, "MAX_FOLLOWED", 1)
    js = made(a_set(), **done({}))
    pods = [pod(js, 0, index, {"state": ended(0)}) for index in range(3)]
    cluster = connected(js, *pods)
    cluster.logs = {(one["metadata"]["name"], "main"): "x\n" for one in pods}
    code, out, err = command("logs", "train", "-f")
    assert (code, len(out.splitlines())) == (0, 3)
    assert err == "jobset logs: 2 more logs, followed when others have ended: --job JOB follows those of one Job\n"


REFUSED = 'Get "https://node-1:10250/containerLogs": no route to host'
AWAY = "no log, which the kubelet keeps: the API server does not reach that of node-1: no route to host; a node that is"


def test_a_log_that_cannot_be_read_is_named_once(command, connected):
    js = a_set()
    one, other = pod(js, 0, 0, {"state": RUNNING}), pod(js, 1, 0, {"state": RUNNING})
    cluster = connected(js, one, other)
    cluster.logs = {("train-workers-1-0", "main"): "x\n"}
    cluster.unread = {"train-workers-0-0": REFUSED}
    cluster.changes = [("MODIFIED", after(js, "train-workers-0-0", **done(js)))]
    cluster.changes += [("DELETED", after(of, of["metadata"]["name"])) for of in (one, other)]
    code, out, err = command("logs", "train", "-f")
    assert (code, out) == (0, "[train-workers-1/0 main] x\n")
    assert err.count(f"[train-workers-0/0 main] has {AWAY}") == 1


def test_a_set_that_has_ended_and_whose_logs_cannot_be_read_says_why(command, connected):
    js = made(a_set(), **done({}))
    connected(js, pod(js, 0, 0, {"state": ended(1)})).unread = {"train-workers-0-0": REFUSED}
    code, out, err = command("logs", "train", "-f")
    assert (code, out) == (1, "")
    assert err.startswith(f"[train-workers-0/0 main] has {AWAY}")


def test_a_cause_that_many_logs_have_is_said_twice_at_most(command, connected):
    js = made(a_set(), **done({}))
    pods = [pod(js, 0, index, {"state": ended(1)}) for index in range(4)]
    connected(js, *pods).unread = {one["metadata"]["name"]: REFUSED for one in pods}
    code, _, err = command("logs", "train", "-f")
    first, others = err.splitlines()
    assert (code, AWAY in first) == (1, True)
    assert others == "jobset logs: others have no log for the same reason"


def test_a_job_that_the_set_does_not_have_is_not_followed(command, connected):
    connected(a_set())
    code, _, err = command("logs", "train", "-f", "--job=train-worker-0")
    assert (code, 'has no Job train-worker-0; did you mean "train-workers-0"?' in err) == (1, True)


def test_a_deleted_set_ends_it(command, connected):
    js = a_set()
    connected(js).changes = [("DELETED", newer(js))]
    assert command("logs", "train", "-f")[0] == 1


def test_an_attempt_cannot_be_chosen(command, connected):
    connected(a_set())
    code, _, err = command("logs", "train", "-f", "--attempt=1")
    assert (code, "leave out --attempt" in err) == (2, True)


@pytest.mark.parametrize("kind", ["pods", "jobsets"])
def test_without_the_right_to_list_nothing_is_followed(command, connected, kind: str):
    connected(a_set()).refuse(f"/{kind}$", f'User "u" cannot list resource "{kind}"')
    code, out, err = command("logs", "train", "-f")
    assert (code, out) == (2, "")
    assert err.endswith("ask for the right to list pods and to get pods/log in namespace team-a\n")
