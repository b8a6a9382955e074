"""One run of `jobset rollback-check` over an API server in memory: what it writes, when, and what it changes."""

import asyncio
import contextlib
import io
import json

import pytest
import yaml

from api.keys import AWAITS_LEADER, CONTROLLER_NAME, JOBSET_NAME, PLACEMENT_GATE, SPARE_GATE, SPARES
from cli import session
from cli.rollback import run as rollback
from cli.rollback.report import Report
from cli.rollback.run import Options, check
from cli.session import Session
from kube.client import PAGE_SIZE, Client
from kube.errors import KubeError
from kube.transport import Request, Response
from tests.support.model.memory_api import MemoryApi

RULED = {"failurePolicy": {"failOn": "FailureTarget"}}
HAPPENS = "a Job counts as failed only when the last of its pods is gone"


def gated(api: MemoryApi, name: str, *gates: str, **meta: object) -> None:
    labels = {AWAITS_LEADER: "true"}
    spec = {"schedulingGates": [{"name": gate} for gate in gates]}
    api.put("pods", name, metadata={"labels": labels, **meta}, spec=spec)


def checked(api: MemoryApi, output: str = "json", **options: bool | str) -> tuple[str, str, int]:
    """What it wrote to standard output and error, and how many findings there were."""
    out, err = io.StringIO(), io.StringIO()
    report = Report(output, out)
    asyncio.run(check(Client(api), Options(output=output, **options), report, err))
    report.close()
    return out.getvalue(), err.getvalue(), report.count


def found(api: MemoryApi, **options: bool | str) -> list[tuple[str, str, str]]:
    return [(each["kind"], each["name"], each["path"]) for each in json.loads(checked(api, **options)[0])["concerned"]]


@pytest.mark.parametrize("sets", [0, 1, 3])
def test_every_output_says_the_same(sets):
    api = MemoryApi()
    for number in range(sets):
        api.put("jobsets", f"js-{number}", spec=RULED)
    as_json, as_yaml = (checked(api, output)[0] for output in ("json", "yaml"))
    concerned = json.loads(as_json)["concerned"]
    assert yaml.safe_load(as_yaml) == {"concerned": concerned}
    assert [(each["name"], each["path"], each["happens"]) for each in concerned] == [
        (f"js-{number}", "spec.failurePolicy.failOn", HAPPENS) for number in range(sets)
    ]
    lines = [f"JobSet ns/js-{n}: spec.failurePolicy.failOn: {HAPPENS}; {concerned[n]['remedy']}" for n in range(sets)]
    assert checked(api, "table")[0].splitlines() == (lines or ["nothing would behave otherwise under the Go JobSet"])


def test_control_characters_of_names_do_not_reach_the_terminal():
    api = MemoryApi()
    api.put("jobsets", "js\x1b[2J", spec=RULED)
    assert "\x1b" not in checked(api, "table")[0]


class Witness(MemoryApi):
    """Notes how many findings were written when each list was asked for."""

    def __init__(self, out: io.StringIO) -> None:
        super().__init__()
        self.out, self.seen = out, []

    async def send(self, request: Request) -> Response:
        self.seen.append(self.out.getvalue().count("failOn"))
        return await super().send(request)


def test_findings_are_written_before_the_next_page_is_read_and_not_kept():
    out = io.StringIO()
    api = Witness(out)
    for number in range(2 * PAGE_SIZE + 1):
        api.put("jobsets", f"js-{number}", spec=RULED)
    report = Report("table", out)
    asyncio.run(check(Client(api), Options(), report, io.StringIO()))
    assert api.seen == [0, PAGE_SIZE, 2 * PAGE_SIZE, 2 * PAGE_SIZE + 1, 2 * PAGE_SIZE + 1], (
        "pods are listed by two labels"
    )
    assert report.count == 2 * PAGE_SIZE + 1
    assert [value for value in vars(report).values() if isinstance(value, list | dict | set | tuple)] == []


def test_completed_jobs_are_looked_for_among_the_jobs_of_the_set_itself():
    api = MemoryApi()
    entries = [{"name": "a", "completedIndexes": "0-1"}]
    for name in ("whole", "robbed"):
        spec = {"replicatedJobs": [{"name": "a", "replicas": 2}]}
        js = api.put("jobsets", name, spec=spec, status={"replicatedJobsStatus": entries})
        for index in range(2):
            mine = name == "whole" or index == 0
            owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": name, "controller": True}
            owners = [{**owner, "uid": js["metadata"]["uid"] if mine else "of another life"}]
            meta = {"labels": {JOBSET_NAME: name}, "ownerReferences": owners}
            api.put("jobs", f"{name}-a-{index}", metadata=meta, spec={})
    assert found(api) == [("JobSet", "robbed", "status.replicatedJobsStatus[0].completedIndexes")]


def test_only_the_namespace_that_is_asked_for():
    api = MemoryApi()
    for namespace in ("ns", "other"):
        api.put("jobsets", f"js-{namespace}", namespace, spec={**RULED, "managedBy": CONTROLLER_NAME})
        api.put(
            "pods",
            f"pod-{namespace}",
            namespace,
            metadata={"labels": {AWAITS_LEADER: "true"}},
            spec={"schedulingGates": [{"name": PLACEMENT_GATE}]},
        )
    assert [name for _, name, _ in found(api, namespace="other")] == ["js-other", "pod-other"]
    assert len(found(api)) == 4
    checked(api, namespace="other", release=True)
    assert [name for _, name, _ in found(api)] == ["js-ns", "js-other", "pod-ns"]


def test_a_release_takes_away_our_gate_and_label_and_nothing_else():
    api = MemoryApi()
    gated(api, "waits", "kueue", PLACEMENT_GATE)
    gated(api, "not-ours", "kueue")
    gated(api, "ends", PLACEMENT_GATE, deletionTimestamp="2026-01-01T00:00:00Z")
    assert found(api) == [("Pod", "waits", "spec.schedulingGates[1]")]
    assert [call.verb for call in api.requests if call.method != "GET"] == [], "a check changes nothing"
    out, err, concerned = checked(api, "table", release=True)
    assert (concerned, err) == (0, "lifted the gate of pod ns/waits\n")
    assert out == "nothing would behave otherwise under the Go JobSet\n"
    assert [call.path.rpartition("/")[2] for call in api.requests if call.method != "GET"] == ["waits"]
    pod = api.objects("pods")["ns", "waits"]
    assert pod["spec"]["schedulingGates"] == [{"name": "kueue"}]
    assert AWAITS_LEADER not in pod["metadata"]["labels"]


def test_a_release_lets_go_a_pod_that_waits_for_the_place_of_a_spare():
    api = MemoryApi()
    gates = [{"name": SPARE_GATE}]
    api.put("pods", "waits", metadata={"labels": {SPARES: "workers"}}, spec={"schedulingGates": gates})
    assert found(api) == [("Pod", "waits", "spec.schedulingGates[0]")]
    checked(api, release=True)
    assert api.objects("pods")["ns", "waits"]["spec"]["schedulingGates"] == []


class Replaced(MemoryApi):
    """Another pod has the name by the time of the patch, or none."""

    async def send(self, request: Request) -> Response:
        if request.method == "PATCH":
            name = request.path.rpartition("/")[2]
            self.drop("pods", name)
            if name == "replaced":
                gated(self, name, PLACEMENT_GATE)
        return await super().send(request)


def test_a_pod_that_is_gone_or_another_one_by_now_is_not_released():
    api = Replaced()
    gated(api, "gone", PLACEMENT_GATE)
    gated(api, "replaced", PLACEMENT_GATE)
    assert checked(api, "table", release=True)[1:] == ("", 0)
    assert api.objects("pods")["ns", "replaced"]["spec"]["schedulingGates"] == [{"name": PLACEMENT_GATE}]


def over_memory(api: MemoryApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command reaches the API server in memory."""

    @contextlib.asynccontextmanager
    async def connected(_: session.ClusterFlags):
        yield Session(Client(api), "default")

    monkeypatch.setattr(session, "connect", connected)


class Forbidding(MemoryApi):
    """Does not let pods be listed."""

    async def send(self, request: Request) -> Response:
        if request.path.endswith("/pods"):
            return Response(403, {}, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no pods for you"}')
        return await super().send(request)


def test_a_run_that_breaks_off_says_so_and_closes_no_json(monkeypatch):
    api = Forbidding()
    api.put("jobsets", "js", spec=RULED)

    over_memory(api, monkeypatch)
    out, err = io.StringIO(), io.StringIO()
    assert rollback.run(Options(output="json"), out, err) == 2
    assert "no pods for you" in err.getvalue()
    with contextlib.suppress(json.JSONDecodeError):
        pytest.fail(f"taken for a whole answer: {json.loads(out.getvalue())}")
    with pytest.raises(KubeError):
        asyncio.run(check(Client(api), Options(), Report("json", io.StringIO()), io.StringIO()))


@pytest.mark.parametrize(("spec", "code"), [(RULED, 1), ({}, 0)])
def test_the_exit_code_says_whether_something_is_concerned(spec, code, monkeypatch):
    api = MemoryApi()
    api.put("jobsets", "js", spec=spec)

    over_memory(api, monkeypatch)
    assert rollback.run(Options(), io.StringIO(), io.StringIO()) == code
