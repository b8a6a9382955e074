"""What `jobset validate` prints: text with marked places, JSON, SARIF, colours, help."""

import io
import json
from pathlib import Path

import pytest
import yaml

from api.features import FeatureGates
from cli.check.validate import Options, run
from tests.support.objects.jobsets import jobset, rjob
from tests.support.objects.validated import GOOD, TYPO, WARNED


@pytest.mark.parametrize(
    "body",
    [
        jobset(network={"subdomain": "A_b"}),
        jobset(rjob("Workers_1")),
        jobset(rjob(pod={"containers": [{"name": "m", "image": "i", "resources": {"limits": {"gpu": "1"}}}]})),
    ],
    ids=["two-forms-of-a-subdomain", "names-of-jobs-and-of-pods", "two-sentences-about-a-resource"],
)
def test_what_the_api_server_says_twice_of_a_value_is_shown_once(validate, write, body):
    code, out, _ = validate("-f", write(yaml.safe_dump(body)))
    assert (code, out.splitlines()[-1]) == (1, "1 file, 1 JobSet, 1 error, 0 warnings"), out


def test_two_faults_of_one_value_are_both_shown(validate, write):
    _, out, _ = validate("-f", write(yaml.safe_dump(jobset(managedBy="Acme_Corp/my controller"))))
    assert out.splitlines()[-1] == "1 file, 1 JobSet, 2 errors, 0 warnings"


def test_of_several_jobsets_each_finding_names_its_own(validate, write):
    bad = {"failurePolicy": {"maxRestarts": 1, "restartStrategy": "recreate"}}
    items = [jobset(name="a", namespace="team-a"), jobset(name="b", namespace="team-b", **bad)]
    code, out, _ = validate("-f", write(json.dumps({"apiVersion": "v1", "kind": "List", "items": items})))
    assert (code, out.count(": error: ")) == (1, 1)
    assert ": error: JobSet team-b/b: spec.failurePolicy.restartStrategy: Unsupported value" in out
    documents = "---\n".join(yaml.safe_dump(item) for item in items)
    assert ": error: JobSet team-b/b: spec.failurePolicy" in validate("-f", write(documents))[1]
    assert ": error: spec.failurePolicy" in validate("-f", write(yaml.safe_dump(items[1])))[1], "there is but one"


def test_several_files_and_kinds_in_one_summary(validate, write, tmp_path):
    (tmp_path / "d").mkdir()
    write(GOOD, "d/a.yaml")
    write(json.dumps({"apiVersion": "v1", "kind": "List", "items": [jobset(), jobset(name="b")]}), "d/b.json")
    write("apiVersion: v1\nkind: ConfigMap\n", "c.yaml")
    code, out, _ = validate("-f", "d", "-f", "c.yaml", "-f", write(TYPO))
    assert code == 1
    assert out.splitlines()[-1] == "4 files, 4 JobSets (1 object of other kinds passed over), 2 errors, 0 warnings"


def test_json_has_the_documented_shape(validate, write):
    code, out, _ = validate("-f", write("kind: Pod\n---\n" + TYPO), "-o", "json")
    report = json.loads(out)
    assert code == 1
    assert {key: report[key] for key in report if key != "findings"} == {
        "files": 1, "jobsets": 1, "others": 1, "errors": 2, "warnings": 0, "notes": 0, "problems": []
    }  # fmt: skip
    typo, negative = report["findings"]
    assert typo == {
        "file": "f.yaml", "line": 8, "column": 3, "endColumn": 15, "document": 2, "item": None, "jobset": "train",
        "path": "spec.sucessPolicy", "severity": "error", "rule": "schema-unknown-field", "type": "Invalid value",
        "reason": "FieldValueInvalid", "value": None, "message": 'unknown field "sucessPolicy"',
        "fix": 'did you mean "successPolicy"?', "layer": "schema",
    }  # fmt: skip
    assert (negative["value"], negative["path"]) == (-1, "spec.replicatedJobs[0].replicas")


def test_json_lists_problems_too(validate):
    code, out, _ = validate("-f", "none.yaml", "-o", "json")
    assert code == 2
    assert json.loads(out)["problems"] == ["none.yaml: no such file or directory"]


def test_sarif_has_what_the_standard_demands(validate, write, tmp_path):
    (tmp_path / "with space").mkdir()
    names = [write(TYPO), write(WARNED, "with space/w.yaml"), "none.yaml"]
    code, out, _ = validate(*(arg for name in names for arg in ("-f", name)), "-o", "sarif")
    assert code == 2
    log = json.loads(out)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (sarif,) = log["runs"]
    driver = sarif["tool"]["driver"]
    assert driver["name"] == "jobset"
    assert [rule["id"] for rule in driver["rules"]] == sorted({result["ruleId"] for result in sarif["results"]})
    for rule in driver["rules"]:
        for text in ("shortDescription", "fullDescription", "help"):
            assert rule[text]["text"].strip()
    assert [result["level"] for result in sarif["results"]] == ["error", "error", "warning"]
    for result in sarif["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert 1 <= region["startColumn"] < region["endColumn"]
    uris = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in sarif["results"]]
    assert uris == ["f.yaml", "f.yaml", "with%20space/w.yaml"]
    region = sarif["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"], region["endColumn"]) == (6, 3, 15)
    (invocation,) = sarif["invocations"]
    assert not invocation["executionSuccessful"]
    assert "none.yaml" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def marks(text: str) -> list[str]:
    out = io.StringIO()
    path = Path("x.yaml")
    path.write_text(text, encoding="utf-8")
    run(Options(["x.yaml"], FeatureGates({})), out, io.StringIO())
    return out.getvalue().splitlines()


@pytest.mark.usefixtures("write")
def test_terminal_codes_in_a_manifest_do_not_reach_the_terminal():
    lines = marks(GOOD.replace("name: train", 'name: "\\e[31m\u202e"'))
    assert not [line for line in lines if "\x1b" in line or "\u202e" in line]
    assert any("\\x1b[31m" in line for line in lines)


def test_colours_only_at_a_terminal(write, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    name = write(TYPO)
    plain, colored = io.StringIO(), io.StringIO()
    colored.isatty = lambda: True
    options = Options([name], FeatureGates({}))
    run(options, plain, io.StringIO())
    run(options, colored, io.StringIO())
    assert "\x1b[" not in plain.getvalue()
    assert "\x1b[1;31merror:\x1b[0m" in colored.getvalue()


def test_findings_are_bounded_and_the_rest_is_counted(write):
    out = io.StringIO()
    text = "---\n".join(TYPO.replace("name: train", f"name: train-{i}") for i in range(4))
    assert run(Options([write(text)], FeatureGates({}), max_findings=3), out, io.StringIO()) == 1
    assert out.getvalue().count(": error: ") == 3
    assert out.getvalue().splitlines()[-2:] == ["and 5 more", "1 file, 4 JobSets, 8 errors, 0 warnings"]


def test_a_quoted_template_expression_is_to_be_rendered_and_no_name_is_proposed(validate, write):
    _, out, _ = validate("-f", write(yaml.safe_dump(jobset(name="{{ .Values.name }}"))))
    assert out.splitlines()[0].endswith("helm template CHART | jobset validate -f -`")
