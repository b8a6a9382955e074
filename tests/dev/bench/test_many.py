"""The benchmarks of many JobSets and of real nodes, and delays, which are from the audit log."""

import json
from collections.abc import Iterator

import pytest

from dev.bench import many
from dev.cluster.audit import Call
from dev.cluster.real.preflight import real_nodes_missing
from tests.dev.bench.commands import run_module

CONTROLLER, MANAGER = "system:serviceaccount:kube-system:job-controller", "system:serviceaccount:x:manager"


def call(user: str, verb: str, resource: str, name: str, second: float, code: int = 200) -> Call:
    return Call(verb, resource, "many", name, user, code=code, started=second)


def restart_calls(name: str, second: float, delay: float) -> Iterator[Call]:
    """The calls about a JobSet whose first Job fails at this second."""
    job = f"{name}-workers-0"
    yield call(MANAGER, "patch", "jobsets/status", name, second - 0.1)
    yield call(CONTROLLER, "update", "jobs/status", job, second - 0.2)
    yield call(CONTROLLER, "update", "jobs/status", job, second)
    yield call(MANAGER, "patch", "jobsets/status", name, second + delay)
    yield call(MANAGER, "delete", "jobs", job, second + delay + 0.1)
    yield call(MANAGER, "create", "jobs", job, second + delay + 0.2, code=409)
    yield call(MANAGER, "create", "jobs", job, second + delay + 0.3, code=201)
    yield call(CONTROLLER, "update", "jobs/status", job, second + delay + 0.5)
    yield call(MANAGER, "patch", "jobsets/status", name, second + delay + 0.6)


def test_a_delay_runs_from_the_old_jobs_last_write_to_the_jobsets_next():
    found = [*restart_calls("set-0", 1, 0.25), *restart_calls("set-1", 2, 0.05)]
    assert many.delays_ms(found, ["set-0", "set-1"]) == pytest.approx([50, 250])
    assert many.delays_ms(found, ["set-1"]) == pytest.approx([50])


@pytest.mark.parametrize("kept", range(1, 6))
def test_a_jobset_whose_job_is_not_created_again_yet_has_no_delay(kept):
    assert many.delays_ms(list(restart_calls("set-0", 1, 0.25))[:kept], ["set-0"]) == []


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_whole_run_as_small_as_can_be(binaries, tmp_path):
    arguments = ("--scenarios=P19", "--scale=0.003", "--nodes=1", "--manager=jobset", f"--out={tmp_path}", "-o=json")
    done = run_module("dev.bench", *arguments, timeout=580)
    assert done.returncode == 0, done.stderr
    [turn] = json.loads(done.stdout)["turns"]
    phases = {name.removeprefix("P19 "): phase for name, phase in turn["phases"].items()}
    assert list(phases) == ["create", "rest", "failures", "start", "takeover", "deletion"]
    assert phases["create"]["manager"]["creates"] == 15
    assert len(phases["failures"]["delays_ms"]) == 2
    started = phases["start"]["manager"]
    changes = [started[kind] for kind in ("creates", "deletes", "status_writes")]
    assert changes == [0, 0, 0], "a manager that starts changes no JobSet at rest"
    assert len(phases["takeover"]["delays_ms"]) == 1


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_set_is_created_and_restarted_on_real_nodes(binaries, tmp_path):
    if missing := real_nodes_missing():
        pytest.skip(missing)
    arguments = ("--scenarios=P23", "--rounds=1", "--scale=0.4", "--manager=jobset", f"--out={tmp_path}", "-o=json")
    done = run_module("dev.bench", *arguments, timeout=280)
    assert done.returncode == 0, done.stderr
    [turn] = json.loads(done.stdout)["turns"]
    assert {name: (phase["pods"], phase["manager"]["creates"]) for name, phase in turn["phases"].items()} == {
        "P23 create": (4, 2),
        "P23 restart": (4, 2),
    }
