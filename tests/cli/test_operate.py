"""`jobset wait`, `restart`, `scale`, `suspend` and `resume` with a cluster that answers from a few objects."""

import json
from typing import Any

import msgspec
import pytest

from api.jobset import JobSet
from jobset_client.states import STATES, has_reached
from tests.support.explain.objects import MOMENT, at, made
from tests.support.model.fake_cluster import Cluster
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]


def a_set(*conditions: str, counts: JSON | None = None, ended: str = "", version: int = 1, **spec: Any) -> JSON:
    """`counts`: of its one ReplicatedJob, which has two Jobs."""
    zero = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
    body = made(
        stored(jobset(rjob(replicas=2), namespace="team-a", **spec)),
        conditions=[
            {"type": kind, "status": "True", "reason": "R", "message": "its end", "lastTransitionTime": at(MOMENT)}
            for kind in (*conditions, *([ended] if ended else []))
        ],
        replicatedJobsStatus=[{"name": "workers", **zero, **(counts or {})}],
        **({"terminalState": ended} if ended else {}),
    )
    body["metadata"]["resourceVersion"] = str(version)
    return body


KUEUE = {"kind": "APIGroup", "metadata": {"name": "kueue.x-k8s.io"}}


def with_queue(body: JSON) -> JSON:
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpus"}
    return body


READY = {"ready": 1, "succeeded": 1}


@pytest.mark.parametrize(
    ("body", "states"),
    [
        (a_set(), []),
        (a_set(counts={"ready": 1}), []),
        (a_set(counts=READY), ["ready"]),
        (a_set("RestartingJobSet", counts=READY), []),
        (a_set(counts=READY, suspend=True), []),
        (a_set("Suspended", counts=READY), []),
        (a_set("Suspended", suspend=True), ["suspended"]),
        (a_set("Suspended", suspend=True, counts={"active": 1}), []),
        (a_set("Suspended", suspend=True, ended="Failed"), ["failed", "finished"]),
        (a_set(counts={"succeeded": 2}, ended="Completed"), ["completed", "finished"]),
        (a_set(counts=READY, ended="Failed"), ["failed", "finished"]),
    ],
)
def test_the_state_of_a_set(body: JSON, states: list[str]):
    js = msgspec.convert(body, JobSet)
    assert [state for state in STATES if has_reached(js, state)] == states


def test_wait_ends_at_once_in_the_state(command, connected):
    cluster = connected(a_set(counts=READY))
    assert command("wait", "train", "--for=ready") == (0, "JobSet team-a/train: ready\n", "")
    assert len(cluster.asked) == 1


def test_wait_watches_until_the_state_comes(command, connected):
    cluster = connected(a_set())
    cluster.changes = [
        ("MODIFIED", a_set(counts={"ready": 1}, version=2)),
        ("MODIFIED", a_set(counts=READY, version=3)),
    ]
    assert command("wait", "jobset/train", "--for=ready")[:2] == (0, "JobSet team-a/train: ready\n")
    assert [request.verb for request in cluster.asked] == ["get", "list", "watch"]
    assert ("fieldSelector", "metadata.name=train") in cluster.asked[-1].query


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("MODIFIED", a_set(ended="Failed", version=2)), "has failed at 2026-11-21T14:05:03Z: its end"),
        (("DELETED", a_set(version=2)), "was deleted"),
    ],
)
def test_wait_ends_when_the_state_will_never_come(command, connected, change: tuple[str, JSON], words: str):
    connected(a_set()).changes = [change]
    said = f"jobset wait: JobSet team-a/train {words}; it will never be completed\n"
    assert command("wait", "train", "--for=completed") == (1, "", said)


@pytest.mark.parametrize("how", ["Completed", "Failed"])
def test_finished_is_either_end_and_says_which(command, connected, how: str):
    connected(a_set()).changes = [("MODIFIED", a_set(ended=how, version=2))]
    code, out, err = command("wait", "train", "--for=finished")
    assert (code, err) == (0, "")
    assert out.startswith(f"JobSet team-a/train: finished: has {how.lower()} at 2026-11-21T14:05:03Z")


def test_a_set_that_was_created_again_is_another_one(command, connected):
    other = a_set(ended="Completed", version=3)
    other["metadata"]["uid"] = "another"
    connected(a_set()).changes = [("DELETED", a_set(version=2)), ("ADDED", other)]
    assert command("wait", "train", "--for=completed")[0] == 1


def test_wait_has_a_timeout(command, connected):
    connected(a_set())
    code, out, err = command("wait", "train", "--for=ready", "--timeout=50ms")
    assert (code, out) == (124, "")
    assert err == "jobset wait: JobSet team-a/train: not ready after 0.05 s; jobset explain train -n team-a says why\n"


@pytest.mark.parametrize("words", [["--for=gone"], [], ["--for=ready", "--timeout=3"]])
def test_wrong_flags_of_wait(command, connected, words: list[str]):
    connected(a_set())
    assert command("wait", "train", *words)[0] == 2


@pytest.mark.parametrize(("name", "suspend"), [("suspend", True), ("resume", False)])
def test_suspend_and_resume_write_one_field(command, connected, name: str, suspend: bool):
    cluster = connected(a_set(suspend=not suspend))
    assert command(name, "train") == (0, f"JobSet team-a/train: {name.removesuffix('e')}ed\n", "")
    patch = cluster.asked[-1]
    assert (patch.verb, patch.query) == ("patch", (("fieldManager", "jobset-cli"),))
    body = json.loads(patch.body or b"")
    assert body["spec"] == {"suspend": suspend}
    assert body["metadata"] == {"uid": a_set()["metadata"]["uid"]}


@pytest.mark.parametrize(
    ("name", "suspend", "said"),
    [
        ("suspend", True, "is suspended already"),
        ("resume", False, "is not suspended: there is nothing to resume"),
    ],
)
def test_what_is_so_already_is_not_written(command, connected, name: str, suspend: bool, said: str):
    cluster = connected(a_set(suspend=suspend))
    assert command(name, "train") == (0, f"JobSet team-a/train: {said}\n", "")
    assert len(cluster.asked) == 1


@pytest.mark.parametrize("suspend", [True, False])
@pytest.mark.parametrize("name", ["suspend", "resume", "restart", "scale"])
def test_a_set_that_has_ended_is_not_changed_and_when_is_said(command, connected, name: str, suspend: bool):
    cluster = connected(a_set(ended="Completed", suspend=suspend))
    code, out, err = command(name, "train", *(["workers=4"] if name == "scale" else []))
    assert (code, out, len(cluster.asked)) == (1, "", 1)
    assert err == (
        f"jobset {name}: JobSet team-a/train has completed at 2026-11-21T14:05:03Z; a JobSet that has ended does not change any more:"
        " delete it and create it again to run it once more\n"
    )


@pytest.mark.parametrize(
    ("words", "suspend"),
    [(["suspend", "train"], False), (["resume", "train"], True), (["scale", "train", "workers=4"], False)],
)
def test_what_the_api_server_warns_of_is_said(command, connected, words: list[str], suspend: bool):
    connected(a_set(suspend=suspend)).warning = "spec.network: \x1b[2J no effect"
    code, _, err = command(*words)
    assert (code, err) == (0, f"jobset {words[0]}: warning: spec.network: \N{REPLACEMENT CHARACTER}[2J no effect\n")


def test_a_set_that_is_being_deleted_is_not_waited_for(command, connected):
    body = a_set()
    body["metadata"]["deletionTimestamp"] = at(MOMENT)
    connected(body)
    never = "jobset wait: JobSet team-a/train is being deleted; it will never be ready\n"
    assert command("wait", "train", "--for=ready") == (1, "", never)


@pytest.mark.parametrize("name", ["suspend", "resume", "restart"])
def test_a_set_that_is_being_deleted_is_not_changed(command, connected, name: str):
    body = a_set()
    body["metadata"]["deletionTimestamp"] = at(MOMENT)
    cluster = connected(body)
    code, _, err = command(name, "train")
    assert (code, writes(cluster)) == (1, [])
    assert f"is being deleted since {at(MOMENT)}: jobset explain train -n team-a says what keeps it" in err


MINE = "kubectl get workloads.kueue.x-k8s.io -n team-a -l kueue.x-k8s.io/job-uid=" + a_set()["metadata"]["uid"]


def patched(active: str) -> str:
    return f"""kubectl patch -n team-a $({MINE} -o name) --type=merge -p '{{"spec":{{"active":{active}}}}}'"""


@pytest.mark.parametrize(
    ("name", "suspended", "words"),
    [
        ("resume", True, f"resumes it when it admits it: {MINE} says when"),
        ("restart", True, f"resumes it when it admits it: {MINE} says when"),
        ("suspend", False, f"would resume it at once. Kueue ends its pods and keeps it suspended: {patched('false')};"),
        (
            "restart",
            False,
            f"{patched('false')} && jobset wait train -n team-a --for=suspended && {patched('true')}",
        ),
    ],
)
def test_a_set_of_a_queue_is_left_to_kueue(command, connected, name: str, suspended: bool, words: str):
    cluster = connected(with_queue(a_set(suspend=suspended)), KUEUE)
    code, _, err = command(name, "train")
    assert (code, writes(cluster)) == (1, [])
    assert "JobSet team-a/train is in the Kueue queue gpus, which " in err
    assert words in err


@pytest.mark.parametrize(("name", "suspended"), [("resume", True), ("suspend", False)])
def test_a_queue_means_nothing_without_kueue(command, connected, name: str, suspended: bool):
    cluster = connected(with_queue(a_set(suspend=suspended)))
    assert command(name, "train")[0] == 0
    assert len(writes(cluster)) == 1


@pytest.mark.parametrize("words", [["restart"], ["suspend"], ["resume"], ["wait", "--for=ready"]])
def test_a_name_that_nobody_has(command, connected, words: list[str]):
    none = f"jobset {words[0]}: there is no JobSet train in namespace team-a: "
    connected({"kind": "Namespace", "metadata": {"name": "team-a"}})
    code, _, err = command(*words, "train")
    assert (code, f"{none}there is none at all" in err) == (1, True)
    connected().has_namespaces = False
    assert command(*words, "train")[2] == f"jobset {words[0]}: there is no namespace team-a\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["wait", "train", "--for=ready"], 1),
        (["logs", "train"], 1),
        (["explain", "train"], 1),
        (["explain"], 2),
        (["explain", "-o", "json"], 2),
        (["policy", "scan"], 2),
        (["policy", "which"], 2),
        (["ui"], 2),
    ],
)
def test_a_namespace_that_does_not_exist_is_what_is_said(command, connected, words: list[str], code: int):
    connected({"kind": "Namespace", "metadata": {"name": "team-alpha"}}).has_namespaces = False
    name = "policy " + words[1] if words[0] == "policy" else words[0]
    there = f"jobset {name}: there is no namespace"
    assert command(*words, "-n", "team-alhpa") == (code, "", f'{there} team-alhpa; did you mean "team-alpha"?\n')
    assert command(*words, "-n", "nope") == (code, "", f"{there} nope\n")


@pytest.mark.parametrize(
    ("words", "right", "namespaced"),
    [(["explain", "-A"], "list", True), (["explain"], "list", False), (["ui", "-A"], "list and watch", True)],
)
def test_who_may_not_list_all_namespaces_is_told_to_name_one(command, connected, words, right, namespaced):
    connected(a_set()).refuse("")
    code, _, err = command(*words)
    assert code == 2
    assert f"no right; ask for the right to {right} jobsets.jobset.x-k8s.io" in err
    assert err.endswith(" in all namespaces, or name one that you may read with -n NAMESPACE\n") is namespaced


def writes(cluster: Cluster) -> list[Any]:
    return [json.loads(request.body or b"") for request in cluster.asked if request.verb == "patch"]


def test_restart_does_not_resume_while_jobs_have_pods(command, connected):
    cluster = connected(a_set(counts=READY))
    cluster.changes = [
        ("MODIFIED", a_set(suspend=True, version=2)),
        ("MODIFIED", a_set("Suspended", counts={"active": 2}, suspend=True, version=3)),
    ]
    assert command("restart", "train", "--timeout=50ms")[0] == 124, "resumed before the Jobs had no pods any more"
    assert len(writes(cluster)) == 1


def test_restart_suspends_waits_and_resumes_the_very_set(command, connected):
    cluster = connected(a_set(counts=READY))
    cluster.changes = [
        ("MODIFIED", a_set("Suspended", counts={"active": 2}, suspend=True, version=2)),
        ("MODIFIED", a_set("Suspended", suspend=True, version=3)),
    ]
    code, out, err = command("restart", "train")
    assert (code, out.splitlines()[-1], err) == (0, "JobSet team-a/train: resumed", "")
    uid = a_set()["metadata"]["uid"]
    assert writes(cluster) == [{"metadata": {"uid": uid}, "spec": {"suspend": now}} for now in (True, False)]
    assert [request.verb for request in cluster.asked] == ["get", "patch", "list", "watch", "patch"]


def test_a_restart_that_takes_too_long_says_how_to_go_on(command, connected):
    cluster = connected(a_set())
    code, _, err = command("restart", "train", "--timeout=50ms")
    assert (code, len(writes(cluster))) == (124, 1)
    assert "still not suspended after 0.05 s" in err
    assert "jobset resume train -n team-a" in err


def test_a_set_that_is_deleted_in_the_middle_of_a_restart_is_not_resumed(command, connected):
    cluster = connected(a_set())
    cluster.changes = [("DELETED", a_set(version=2))]
    code, _, err = command("restart", "train")
    assert (code, len(writes(cluster))) == (1, 1)
    assert err == "jobset restart: JobSet team-a/train was deleted; it will never be suspended\n"


def test_a_suspended_set_is_not_restarted(command, connected):
    cluster = connected(a_set(suspend=True))
    said = "jobset restart: JobSet team-a/train is suspended: jobset resume train -n team-a starts its pods\n"
    assert (command("restart", "train"), len(cluster.asked)) == ((1, "", said), 1)


def test_scale_writes_the_numbers_of_jobs_into_the_very_set(command, connected):
    cluster = connected(a_set())
    assert command("scale", "train", "workers=6") == (0, "JobSet team-a/train: scaled: workers has 6\n", "")
    assert writes(cluster) == [
        [
            {"op": "test", "path": "/metadata/uid", "value": a_set()["metadata"]["uid"]},
            {"op": "test", "path": "/spec/replicatedJobs/0/name", "value": "workers"},
            {"op": "add", "path": "/spec/replicatedJobs/0/replicas", "value": 6},
        ]
    ]


def test_a_size_that_is_so_already_is_not_written(command, connected):
    cluster = connected(a_set())
    assert command("scale", "train", "workers=2") == (0, "JobSet team-a/train: workers has 2 already\n", "")
    assert not writes(cluster)


def test_scale_names_the_replicated_jobs_that_there_are(command, connected):
    cluster = connected(a_set())
    code, _, err = command("scale", "train", "worker=6")
    assert (code, writes(cluster)) == (1, [])
    none = 'JobSet team-a/train has no ReplicatedJob "worker"'
    assert err == f'jobset scale: {none}: did you mean "workers"? there are: "workers"\n'


@pytest.mark.parametrize("words", [["workers"], ["workers=x"], ["=3"], ["workers=-1"], ["workers=1", "workers=2"], []])
def test_wrong_sizes(command, connected, words: list[str]):
    cluster = connected(a_set())
    assert (command("scale", "train", *words)[0], cluster.asked) == (2, [])
