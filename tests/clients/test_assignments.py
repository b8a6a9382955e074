"""What may be assigned to the models of the Python client, and what is said about the rest."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobset_client import JobSet, ReplicatedJob
from jobset_client.errors import UnreadableError
from tests.support.objects.jobsets import jobset, rjob
from tests.support.pages.files import ROOT


def made() -> Any:
    return JobSet.from_dict(jobset(rjob(), suspend=True))


def assigned(path: str, value: Any) -> Any:
    """A JobSet after the assignment to the attribute `path`."""
    js = made()
    *parents, name = path.split(".")
    target = js
    for parent in parents:
        target = target[int(parent)] if parent.isdigit() else getattr(target, parent)
    setattr(target, name, value)
    return js


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("spec.suspended", True, 'JobSetSpec: suspended: unknown field "suspended"; did you mean "suspend"?'),
        (
            "spec.replicated_jobs.0.replicas",
            "3",
            ('ReplicatedJob: replicas: Invalid value: "3": must be of type integer, is a string; write a whole number'),
        ),
        (
            "spec.replicated_jobs.0.name",
            None,
            "ReplicatedJob: name: Invalid value: null: must be of type string, is null; write a text",
        ),
        (
            "spec.network",
            {"enable_dns_hostname": False},
            (
                'JobSetSpec: network.enable_dns_hostname: unknown field "enable_dns_hostname";'
                ' did you mean "enable_dns_hostnames"?'
            ),
        ),
        ("spec", 3, "JobSet: spec: Invalid value: 3: must be of type object, is an integer; write an object"),
    ],
)
def test_what_cannot_be_assigned_is_refused_at_once(path: str, value: Any, message: str):
    with pytest.raises(UnreadableError) as caught:
        assigned(path, value)
    assert str(caught.value) == message


def test_a_refused_assignment_changes_nothing():
    js = made()
    with pytest.raises(UnreadableError):
        js.spec.replicated_jobs[0].replicas = "3"
    assert js == made()


def test_an_object_may_be_assigned_as_a_dict():
    js = assigned("spec.network", {"enable_dns_hostnames": False})
    assert js.spec.network.enable_dns_hostnames is False
    assert js.to_dict()["spec"]["network"] == {"enableDNSHostnames": False}


@pytest.mark.parametrize("path", ["spec.suspend", "spec.replicated_jobs", "metadata.labels", "status"])
def test_none_makes_a_field_absent(path: str):
    written = assigned(path, None).to_dict()
    parent, _, name = path.rpartition(".")
    where = written[parent] if parent else written
    assert name not in where
    assert "replicatedJobs" not in where or name != "replicated_jobs"


@pytest.mark.parametrize(
    ("put", "message"),
    [
        (
            lambda js: js.metadata.labels.update(team=3),
            'metadata.labels.team: Invalid value: 3: must be of type string, is an integer; write it in quotes: "3"',
        ),
        (
            lambda js: js.spec.replicated_jobs.append({"name": "b", "template": {}, "replicas": "2"}),
            (
                'spec.replicatedJobs[1].replicas: Invalid value: "2": must be of type integer, is a string;'
                " write a whole number"
            ),
        ),
    ],
)
def test_what_was_put_into_a_list_or_dict_is_checked_when_it_is_written(put: Callable[[Any], None], message: str):
    js = made()
    put(js)
    with pytest.raises(UnreadableError) as caught:
        js.to_dict()
    assert str(caught.value) == f"JobSet: {message}"


def test_a_dict_in_a_list_of_objects_is_written_like_one():
    js, like = made(), made()
    js.spec.replicated_jobs.append({"name": "b", "template": {}, "depends_on": [{"name": "a", "status": "Ready"}]})
    like.spec.replicated_jobs.append(
        ReplicatedJob(name="b", template={}, depends_on=[{"name": "a", "status": "Ready"}])  # type: ignore[list-item]
    )
    assert js.to_dict() == like.to_dict()


def test_unknown_fields_that_were_kept_may_be_changed():
    js: Any = JobSet.from_dict({"spec": {"later": 1}}, keep_unknown=True)
    js.spec.later = 2
    assert js.to_dict()["spec"] == {"later": 2}


def test_a_type_checker_finds_what_cannot_be_assigned(tmp_path: Path):
    lines = ["js.spec.suspended = True", 'js.spec.suspend = "yes"', "js.spec.suspend = True"]
    script = tmp_path / "script.py"
    script.write_text("\n".join(["from jobset_client import JobSet", "js = JobSet()", *lines]), encoding="utf-8")
    done = subprocess.run(  # noqa: S603 (its own script)
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}", script],
        env={"MYPYPATH": str(ROOT / "clients/python")},
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line.partition("script.py:")[2] for line in done.stdout.splitlines()]
    assert [line[:1] for line in found[:-1]] == ["3", "4"], done
    assert 'has no attribute "suspended"; maybe "suspend"?' in found[0]
