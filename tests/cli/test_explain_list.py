"""`jobset explain` without a name: all JobSets, one line each."""

import json
from typing import Any

import pytest
import yaml

from api.keys import LEASE
from cli.explain import listing
from kube.clock import now as wall_clock
from tests.support.explain.objects import MOMENT, at, explained, job_of, made, walk
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
TEAM = {"kind": "Namespace", "metadata": {"name": "team-a"}}


def a_set(name: str, *, namespace: str = "team-a", status: JSON | None = None, **spec: Any) -> JSON:
    return made(stored(jobset(rjob(), name=name, namespace=namespace, **spec)), name, **(status or {}))


def ended(kind: str) -> JSON:
    condition = {"type": kind, "status": "True", "reason": "R", "message": "its end", "lastTransitionTime": at(MOMENT)}
    return {"terminalState": kind, "conditions": [condition]}


@pytest.fixture
def managed(connected):
    """The same cluster, with a manager that holds its lease."""

    def connect(*objects: JSON):
        spec = {"holderIdentity": "manager-0_1234", "leaseDurationSeconds": 3600, "renewTime": wall_clock().isoformat()}
        meta = {"name": LEASE, "namespace": "jobset-system"}
        return connected(*objects, {"kind": "Lease", "metadata": meta, "spec": spec})

    return connect


def test_each_set_has_one_line_with_its_state_and_the_cause(command, managed):
    managed(
        a_set("done", status=ended("Completed")), a_set("held", suspend=True), a_set("over", status=ended("Failed"))
    )
    code, out, err = command("explain")
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.split() == ["NAME", "STATE", "SINCE", "CAUSE"]
    assert [line.split()[:2] for line in lines] == [["done", "completed"], ["held", "is"], ["over", "failed"]]
    assert "spec.suspend is true" in lines[1]
    assert "its end" in lines[2]


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("", ": container main of pod over-workers-0-0-x on node n, exit code 137 (killed, SIGKILL; the kubelet does not say OOMKilled)"),
        (": container main of pod over-workers-0-0-x on node n: exit code 137", ": exit code 137"),
    ],
)  # fmt: skip
def test_of_a_failed_set_the_container_and_its_exit_code_are_named(command, connected, said: str, end: str):
    place = {"pod": "over-workers-0-0-x", "node": "n", "container": "main", "exitCode": 137}
    status = ended("Failed") | {
        "attemptHistory": [{"attempt": 0, "failedJob": "over-workers-0", "message": "m", **place}]
    }
    message = "jobset failed due to reaching max number of restarts (first failed job: over-workers-0)"
    status["conditions"][0]["message"] = message + said
    connected(a_set("over", status=status))
    line = command("explain")[1].splitlines()[1]
    assert message in line
    assert line.endswith(end)
    assert line.count("over-workers-0-0-x") == 1


@pytest.mark.parametrize(
    ("status", "since"),
    [
        ({}, "14:05:03Z"),
        ({"lastRestart": {"reason": "R", "startTime": "2026-11-21T14:10:00Z"}}, "14:10:00Z"),
        ({"conditions": [{"type": "Suspended", "status": "False", "reason": "R", "message": "m",
                          "lastTransitionTime": "2026-11-21T14:09:00Z"}]}, "14:09:00Z"),
    ],
)  # fmt: skip
def test_a_set_that_waits_for_its_order_has_waited_since_its_attempt_began(status: JSON, since: str):
    workers = rjob("workers", dependsOn=[{"name": "driver", "status": "Ready"}])
    js = made(stored(jobset(rjob("driver"), workers, namespace="team-a")), **status)
    driver = made(job_of(js, 0, "driver"), active=1, ready=0)
    _, body = explained(js, [driver], [])
    waits = next(finding for finding in walk(body) if finding["cause"] == "later-stage")
    assert (waits["since"], body["since"]) == (f"2026-11-21T{since}",) * 2


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_the_whole_explanations(command, connected, output: str):
    connected(a_set("done", status=ended("Completed")), a_set("held", suspend=True))
    _, out, _ = command("explain", "-o", output)
    body = json.loads(out) if output == "json" else yaml.safe_load(out)
    assert [(one["name"], one["level"]) for one in body["items"]] == [("done", "fine"), ("held", "waits")]


def test_no_jobset_at_all_is_no_fault(command, connected):
    connected(TEAM)
    assert command("explain") == (0, "", "there are no JobSets in namespace team-a: -A looks in all\n")
    assert command("explain", "-A") == (0, "", "there are no JobSets in any namespace\n")
    assert command("explain", "-o", "json")[1] == '{\n  "items": []\n}\n'


def test_a_namespace_that_may_not_be_read_may_be_there(command, connected):
    connected().refuse("/namespaces/nope$")
    assert command("explain", "-n", "nope") == (0, "", "there are no JobSets in namespace nope: -A looks in all\n")


def test_a_list_has_an_end_and_says_so(command, managed, monkeypatch):
    monkeypatch.setattr(listing, "MAX_JOBSETS", 2)
    managed(*(a_set(name, suspend=True) for name in ("a", "b", "c")))
    _, out, err = command("explain")
    assert len(out.splitlines()) == 3
    assert err.startswith("there are more: ")


def test_that_no_manager_runs_is_said_once_with_the_commands(command, connected):
    connected(a_set("a"), a_set("b"), a_set("held", suspend=True))
    code, out, _ = command("explain")
    assert code == 0
    head, *lines = out.splitlines()
    assert head.split()[0] == "NAME"
    assert [line.split()[0] for line in lines[:3]] == ["a", "b", "held"]
    assert "1 Job does not exist (yet): a-workers-0" in lines[0]
    assert out.count("no manager has ever taken the lease") == 1
    assert lines[4].startswith("2 JobSets wait for a manager: no manager has ever taken the lease in namespace jobset-")
    assert lines[5].startswith("to fix: kubectl -n jobset-system get deployments,pods ")
    assert "kubectl -n jobset-system scale deployment --all --replicas=1" in lines[5]
    assert "kubectl -n jobset-system rollout restart deployment" in lines[5]
    assert "make run in a clone, or after a demo jobset cluster status" in lines[5]


def test_that_no_manager_runs_is_said_where_no_set_waits_for_one(command, connected):
    connected(a_set("held", suspend=True))
    _, out, _ = command("explain", "-A")
    assert "no JobSet waits for a manager: no manager has ever taken the lease" in out


@pytest.mark.parametrize("others", [[], [a_set("new")]], ids=["alone", "beside a new one"])
def test_a_set_that_a_manager_has_ended_says_that_one_runs_without_the_lease(command, connected, others):
    connected(a_set("done", status=ended("Completed")), *others)
    assert "the lease" not in command("explain", "-A")[1]


def test_a_set_of_another_controller_says_nothing_about_a_manager(command, connected):
    connected(a_set("done", status=ended("Completed"), managedBy="example.com/other"))
    assert "no manager has ever taken the lease" in command("explain", "-A")[1]


def test_what_may_not_be_read_is_said_once_below_the_list(command, connected):
    connected(a_set("a"), a_set("b")).refuse(f"/jobs$|/leases/{LEASE}$")
    _, out, _ = command("explain")
    below = [line for line in out.splitlines() if line.startswith("not looked at: ")]
    assert len(below) == 2
    assert "Jobs" in below[0]
    assert "you may not get leases in namespace jobset-system" in below[1]


@pytest.mark.parametrize("name", ["train", "jobset/train", "jobsets.jobset.x-k8s.io/train", "js/train", "jobset train"])
def test_a_name_is_written_as_kubectl_takes_it(command, connected, name: str):
    connected(a_set("train", suspend=True))
    code, out, _ = command("explain", *name.split())
    assert code == 0
    assert out.startswith("JobSet team-a/train: is suspended")


@pytest.mark.parametrize(
    "words",
    [
        ["job/train"],
        ["train", "other"],
        ["a/b/c"],
        ["../x"],
        ["Train"],
        [""],
        ["jobset/"],
        ["train", "-A"],
        ["-n", "Team"],
    ],
)
def test_a_name_that_is_none_is_refused(command, connected, words: list[str]):
    cluster = connected(a_set("train"))
    code, out, err = command("explain", *words)
    assert (code, out, cluster.asked) == (2, "", [])
    assert err.startswith("jobset explain: ")


def test_who_watches_sees_what_changes_until_the_set_has_ended(command, connected, monkeypatch):
    cluster = connected()
    held, over = a_set("train", suspend=True), a_set("train", status=ended("Failed"))
    looks = iter([held, held, over])
    monkeypatch.setattr("cli.explain.run.UPDATE_PERIOD", 0.01)
    send = cluster.send

    async def changing(request):
        if request.path.endswith("/jobsets/train"):
            cluster.objects = (next(looks),)
        return await send(request)

    monkeypatch.setattr(cluster, "send", changing)
    code, out, _ = command("explain", "train", "-w")
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("JobSet ")] == [
        "JobSet team-a/train: is suspended",
        f"JobSet team-a/train: failed (since {out.partition('failed (since ')[2].partition(')')[0]})",
    ]


def test_who_watches_an_empty_list_is_told_so_once(command, managed, monkeypatch):
    cluster = managed()
    monkeypatch.setattr("cli.explain.run.UPDATE_PERIOD", 0.01)
    looks = 0
    send = cluster.send

    async def counting(request):
        nonlocal looks
        looks += request.path.endswith("/jobsets")
        if looks == 4:
            raise KeyboardInterrupt
        return await send(request)

    monkeypatch.setattr(cluster, "send", counting)
    _, out, err = command("explain", "-w")
    assert (out, err) == ("", "there are no JobSets in namespace team-a: -A looks in all\n")


def test_who_watches_a_list_sees_it_again_when_it_changes(command, managed, monkeypatch):
    cluster = managed(a_set("a", suspend=True))
    monkeypatch.setattr("cli.explain.run.UPDATE_PERIOD", 0.01)
    looks = 0
    send = cluster.send

    async def changing(request):
        nonlocal looks
        if request.path.endswith("/jobsets"):
            looks += 1
            if looks == 3:
                cluster.objects = (a_set("a", status=ended("Completed")), *cluster.objects[1:])
            if looks == 4:
                raise KeyboardInterrupt
        return await send(request)

    monkeypatch.setattr(cluster, "send", changing)
    _, out, _ = command("explain", "-w")
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["NAME", "STATE"],
        ["a", "is"],
        [],
        ["NAME", "STATE"],
        ["a", "completed"],
    ]
