"""The workflow of a release: what can be checked of it without the code host that runs it."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
# The parser of PyYAML reads the key `on` as true.
WORKFLOW: dict[Any, Any] = yaml.load(TEXT, yaml.CSafeLoader)
JOBS = WORKFLOW["jobs"]
STEPS = [(name, step) for name, job in JOBS.items() for step in job["steps"]]
SCRIPTS = [step["run"] for _, step in STEPS if "run" in step]


def of_job(name: str) -> str:
    return "\n".join(step["run"] for job, step in STEPS if job == name and "run" in step)


def test_it_runs_for_tags_of_versions_only():
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}


def test_actions_are_pinned_by_commit():
    used = re.findall(r"uses: (\S+)(.*)", TEXT)
    assert len(used) == len([step for _, step in STEPS if "uses" in step]) > 0
    for action, version in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action)
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", version)


def test_jobs_may_do_no_more_than_they_need():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    for name, job in JOBS.items():
        signs = "cosign" in of_job(name)
        assert job.get("permissions", {}).get("id-token") == ("write" if signs else None)
        assert job.get("permissions", {}).get("contents", "read") == "read"
    checkouts = [step for _, step in STEPS if step.get("uses", "").startswith("actions/checkout")]
    assert all(step["with"] == {"persist-credentials": False} for step in checkouts)


def test_nothing_of_an_event_is_pasted_into_a_script():
    assert not [script for script in SCRIPTS if "${{" in script]


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_bash(script: str):
    bash = shutil.which("bash")
    assert bash
    subprocess.run([bash, "-n"], input=script, text=True, check=True)  # noqa: S603


def test_targets_modules_and_paths_exist():
    made = " ".join(re.findall(r"make ([a-z -]+)", "\n".join(SCRIPTS))).split()
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"image", "image-agent", "env", "test-unit"} <= set(made) <= set(targets)
    for module in re.findall(r"python -m ([\w.]+)", "\n".join(SCRIPTS)):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists()
    for path in re.findall(r"(?:charts|docs|docker|dev/hack)/[\w./-]+", TEXT):
        assert (ROOT / path).exists()


def test_both_architectures_are_built_attested_and_put_together():
    built = {each["arch"] for each in JOBS["images"]["strategy"]["matrix"]["include"]}
    assert built == {"amd64", "arm64"}
    assert set(re.findall(r"\$VERSION-(\w+)", of_job("publish"))) == built
    assert set(re.findall(r"--type (\w+) --predicate build/image/jobset\.(\w+)\.json", of_job("images"))) == {
        ("spdxjson", "spdx"),
        ("cyclonedx", "cdx"),
    }
    assert "--provenance=mode=max" in JOBS["images"]["env"]["DOCKER_BUILD"]
    assert JOBS["images"]["needs"] == "check"
    assert JOBS["publish"]["needs"] == "images"


def test_the_flags_of_the_workflow_reach_the_builder():
    make = shutil.which("make")
    command = [
        str(make),
        "-n",
        "--no-print-directory",
        "image",
        "IMAGE=registry.example/jobset:v1-arm64",
        "DOCKER_BUILD=docker buildx build --x",
    ]
    shown = subprocess.run(  # noqa: S603
        [*command, "SOURCE=https://example.com/jobset"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert shown.startswith("docker buildx build --x -f docker/Dockerfile ")
    arguments = dict(re.findall(r"--build-arg (\w+)=(\S*)", shown))
    assert arguments.keys() == {"VERSION", "REVISION", "CREATED", "SOURCE"}
    assert arguments["SOURCE"] == "https://example.com/jobset"
    assert "-t registry.example/jobset:v1-arm64 " in shown


def test_the_page_verifies_what_the_workflow_signs():
    page = (ROOT / "docs" / "release.md").read_text()
    assert '/.github/workflows/release.yml@refs/tags/$VERSION"' in page
    assert WORKFLOW["env"]["IMAGE"].split("/")[0] == re.findall(r"^IMAGE=([^/]+)/", page, re.MULTILINE)[0] == "ghcr.io"
    assert 'cosign sign --yes --recursive "$image@$digest"' in of_job("publish")
    attested = re.findall(r"cosign attest --yes --type (\w+)", of_job("images"))
    assert set(re.findall(r"--type=(\w+)", page)) == set(attested)
    assert {*JOBS} == set(re.findall(r"^\| (\w+) \| ", page.split("| Job |")[1].split("\n\n")[0], re.MULTILINE))
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"`make ([a-z-]+)", page)) <= set(targets)


def test_the_published_chart_has_the_published_image_and_pages():
    """So that one line installs it, and links of alerts lead somewhere."""
    changed = re.findall(r'sed -i "s\|(.*)\| +(.*)\|" (\S+)\n', of_job("publish"))
    assert [to for _, to, _ in changed] == ["repository: $IMAGE", "runbooks: $PAGES"]
    for found, _, place in changed:
        assert len(re.findall(found, (ROOT / place).read_text(encoding="utf-8"), re.MULTILINE)) == 1
    assert WORKFLOW["env"]["PAGES"].endswith("/")
