"""`jobset validate --local-server`: the same command against an API server that it starts and stops itself."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.corpus.job_mistakes import CASES
from tests.support.objects.jobsets import JSON, jobset, rjob

MANIFESTS = Path(__file__).parents[1] / "manifests"
WRONG = ("requests-above-limits", "exit-codes-zero", "spread-skew", "mount-without-volume", "mount-sub-path")


def validate(*args: str, stdin: str, **environment: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, report, standard error."""
    done = subprocess.run(  # noqa: S603 (ourselves)
        [sys.executable, "-m", "cli", "validate", *([] if "-f" in args else ["-f", "-"]), "-o", "json", *args],
        input=stdin, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def manifests() -> str:
    """One JobSet that is good where there is its PriorityClass, one with each mistake, one that only an API server finds wrong; in namespaces of their own."""
    rare: JSON = rjob(pod={"volumes": [{"name": "v", "iscsi": {"targetPortal": "a", "iqn": "x", "lun": 0}}]})
    rjobs = [rjob(pod={"priorityClassName": "theirs"}), *(CASES[name] for name in WRONG), rare]
    return yaml.safe_dump_all(jobset(each, namespace=f"team-{i}") for i, each in enumerate(rjobs))


def findings(report: dict[str, Any]) -> list[tuple[int, str, str, str]]:
    return [(found["document"], found["path"], found["message"], found["fix"]) for found in report["findings"]]


def test_the_api_server_says_what_the_rules_say_and_more(tmp_path: Path, binaries: Path):
    """Both name the same places in the same words; only the server knows the rules of rare volumes."""
    local = {"KUBEBUILDER_ASSETS": str(binaries), "TMPDIR": str(tmp_path)}
    code, asked, err = validate("--local-server", stdin=manifests(), **local)
    offline, unasked, _ = validate(stdin=manifests())
    assert (code, offline, asked["problems"], asked["notes"]) == (1, 1, [], 0)
    more = [found for found in findings(asked) if found not in findings(unasked)]
    assert [found for found in findings(unasked) if found not in findings(asked)] == []
    assert {(document, path.rpartition(".")[2]) for document, path, _, _ in more} == {(len(WRONG) + 2, "iqn")}
    assert err.splitlines()[0] == "starting a local API server ..."
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["good", "bad"])
def test_the_corpus_has_faults_at_the_same_places_with_a_server_and_without(folder: str, binaries: Path):
    files = ("-f", str(MANIFESTS / folder), "--feature-gates", "AllAlpha=true")
    places = []
    for local in (["--local-server"], []):
        _, report, _ = validate(*files, *local, stdin="", KUBEBUILDER_ASSETS=str(binaries))
        assert (report["jobsets"] > 50, report["problems"]) == (True, [])
        places.append({(found["file"], found["path"], found["severity"]) for found in report["findings"]})
    with_server, without = places
    assert with_server == without


def test_without_binaries_it_says_how_to_get_them(tmp_path: Path):
    code, report, err = validate("--local-server", stdin=manifests(), KUBEBUILDER_ASSETS=str(tmp_path))
    assert (code, report["jobsets"]) == (2, 7), "they are checked by what needs no API server"
    assert err == (
        "jobset validate: --local-server needs kube-apiserver and etcd: `jobset cluster fetch` brings them here, once;"
        " JobSets that were checked there: 0\n"
    )
