"""`jobset validate` as its users meet it: what it prints, for people and programs, and how it ends."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from api.features import FeatureGates
from app.catalogue import rules
from app.check import findings
from app.check.checks import with_defaults
from app.check.validate import Options, run
from tests.app.conftest import Command
from tests.support.jobsets import jobset, rjob

GOOD = yaml.safe_dump(jobset())
TYPO = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
spec:
  sucessPolicy: {operator: All}
  replicatedJobs:
  - name: workers
    replicas: -1
    template:
      spec:
        template:
          spec:
            containers: [{name: main, image: busybox}]
"""


@pytest.fixture
def validate(command: Command) -> Command:
    return partial(command, "validate")


def test_faults_are_shown_as_compilers_show_them(validate, write):
    code, out, err = validate("-f", write(TYPO))
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        'f.yaml:6:3: error: spec.sucessPolicy: unknown field "sucessPolicy"; did you mean "successPolicy"?',
        "    sucessPolicy: {operator: All}",
        "    ^~~~~~~~~~~~",
        "f.yaml:9:15: error: spec.replicatedJobs[0].replicas: Invalid value: -1: should be greater than or equal to 0; "
        + out.splitlines()[3].partition("equal to 0; ")[2],
        "      replicas: -1",
        "                ^~",
        "1 file, 1 JobSet: 2 errors, 0 warnings",
    ]


STAGES = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: tuning
spec:
  executionPolicy:
    executionPolicyOrder: InOrder
    replicatedJobsStatus: Completed
  successPolicy:
    minSucceeded: "80"
  failurePolicy:
    rules:
    - action: FailJobSet
      maxRestarts: 1
      onExitCodes: {operator: In, values: [4]}
  replicatedJobs:
  - name: initializer
    exitCodePolicy: {permanent: [3], retryable: [3]}
    template:
      spec:
        template:
          spec:
            containers: [{name: main, image: busybox}]
"""


def test_mistakes_in_stages_exit_codes_and_shares_stand_at_their_lines(validate, write):
    code, out, _ = validate("-f", write(STAGES))
    shown = [line.removeprefix("f.yaml:").split(": ")[:3] for line in out.splitlines() if line.startswith("f.yaml:")]
    assert code == 1
    assert [(int(at.split(":")[0]), kind, where) for at, kind, where in shown] == [
        (7, "warning", "spec.executionPolicy.executionPolicyOrder"),
        (8, "error", "spec.executionPolicy.replicatedJobsStatus"),
        (10, "error", "spec.successPolicy.minSucceeded"),
        (14, "error", "spec.failurePolicy.rules[0].maxRestarts"),
        (15, "error", "spec.failurePolicy.rules[0].onExitCodes"),
        (18, "error", "spec.replicatedJobs[0].exitCodePolicy.retryable[0]"),
        (22, "error", "spec.replicatedJobs[0].template.spec.template.spec.restartPolicy"),
    ]
    for words in ('did you mean "Succeeded"?', "80 without quotes", "where it is left out it is OnFailure"):
        assert words in out


def test_a_good_manifest_passes(validate, write):
    assert validate("-f", write(GOOD)) == (0, "1 file, 1 JobSet: 0 errors, 0 warnings\n", "")


WARNED = yaml.safe_dump(jobset(failurePolicy={"maxRestarts": -1}))


def test_warnings_pass_unless_strict(validate, write):
    name = write(WARNED)
    code, out, _ = validate("-f", name)
    assert (code, out.splitlines()[-1]) == (0, "1 file, 1 JobSet: 0 errors, 1 warning")
    assert ": warning: spec.failurePolicy.maxRestarts: below 0 means 0" in out
    assert "null" not in out
    assert validate("-f", name, "--strict")[0] == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"apiVersion": "jobset.x-k8s.io/v1alpha1"}, ["1:13", 'Unsupported value: "jobset.x-k8s.io/v1alpha1"', "write `apiVersion: jobset.x-k8s.io/v1alpha2`"]),
        ({"kind": "Jobset"}, ["2:7", 'Unsupported value: "Jobset"', "write `kind: JobSet`"]),
        ({"metadata": {"labels": {"a": "b"}}}, ["3:1", "metadata.name: Required value: name or generateName is required"]),
        ({"metadata": {"name": "Big_Name"}}, ["4:9", 'metadata.name: Invalid value: "Big_Name": a lowercase RFC 1123 subdomain']),
        ({"metadata": {"name": 5}}, ["4:9", "metadata.name: Invalid value: 5: must be a text; quote it"]),
        ({"metadata": {"generateName": "X-"}}, ["4:17", 'metadata.generateName: Invalid value: "X-": a lowercase']),
        ({"metadata": {"name": "a", "labels": {"bad key": "x"}}}, ["5:14", 'metadata.labels.bad key: Invalid value: "bad key": name part must consist']),
        ({"metadata": {"labels": {"a": "no spaces"}, "name": "a"}}, ["5:8", 'metadata.labels.a: Invalid value: "no spaces": a valid label must be']),
        ({"metadata": {"labels": {"a": True}, "name": "a"}}, ["5:8", "metadata.labels.a: Invalid value: true: must be a text; quote it"]),
        ({"metadata": {"annotations": {"x/y/z": "1"}, "name": "a"}}, ["5:12", 'metadata.annotations[x/y/z]: Invalid value: "x/y/z": prefix part']),
        ({"metadata": {"annotations": {"/y": "1"}, "name": "a"}}, ["5:9", "prefix part must be non-empty"]),
        ({"metadata": {"annotations": {"y/": "1"}, "name": "a"}}, ["5:9", "name part must be non-empty"]),
        ({"metadata": {"annotations": {"a": "x" * 2**18}, "name": "a"}}, ["4:3", "metadata.annotations: Too long: may not be more than 262144 bytes"]),
        ({"metadata": {"annotations": [], "name": "a"}}, ["4:16", "must be a mapping of texts"]),
        ({"metadata": "a"}, ["3:11", 'metadata: Invalid value: "a": must be a mapping']),
        ({"metadata": None}, ["3:1", "metadata.name: Required value"]),
    ],
)  # fmt: skip
def test_what_the_api_server_checks_before_any_webhook(validate, write, change, expected):
    body = {key: value for key, value in {**jobset(), **change}.items() if key != "spec"} | {"spec": jobset()["spec"]}
    code, out, _ = validate("-f", write(yaml.safe_dump(body, sort_keys=False)))
    at, *words = expected
    assert code == 1
    assert out.splitlines()[-1] == "1 file, 1 JobSet: 1 error, 0 warnings", out
    if "labels.bad key" in words[0] or "annotations[" in words[0] or "part must be" in words[0]:
        at = out.split(": error")[0].removeprefix("f.yaml:")  # under the value
    assert out.startswith(f"f.yaml:{at}: error: ")
    for word in words:
        assert word in out


@pytest.mark.parametrize("name", ["a.b", "training", "x" * 40])
def test_names_that_are_fine(validate, write, name):
    body = jobset(network={"subdomain": "net"})
    body["metadata"] = {"name": name, "labels": {"example.com/a": "", "b": "B_1.c"}, "annotations": {"a/b": "any text"}}
    code, out, _ = validate("-f", write(yaml.safe_dump(body)))
    assert (code, ": error: metadata" in out) == (0 if "." not in name else code, False), out


def test_a_template_is_told_to_be_one_and_nothing_else_is_said_of_its_value(validate, write):
    code, out, _ = validate("-f", write(GOOD.replace("name: train", "name: {{ .Values.name }}")))
    assert code == 1
    assert out.splitlines()[-1] == "1 file, 1 JobSet: 1 error, 0 warnings"
    assert "{{ }} is a template (Helm, Argo): render it first" in out


def test_generated_names_are_fine(validate, write):
    body = jobset()
    body["metadata"] = {"generateName": "train-"}
    assert validate("-f", write(yaml.safe_dump(body)))[0] == 0


def test_five_mistakes_of_five_layers_are_all_named(validate, write):
    text = TYPO.replace("name: train", "name: train\n  labels: {a: 1}") + (
        "  coordinator: {replicatedJob: worker}\n  suspend: true\n  suspend: false\n  network: {subdomain: Bad}\n"
    )
    _, out, _ = validate("-f", write(text))
    for words in (
        "metadata.labels.a", "spec.sucessPolicy", "replicas", "spec.coordinator.replicatedJob", "Duplicate", "subdomain"
    ):  # fmt: skip
        assert words in out
    assert 'did you mean "workers"?' in out
    lines = [int(line.split(":")[1]) for line in out.splitlines() if line.startswith("f.yaml:")]
    assert lines == sorted(lines), "by line"
    assert sorted(set(lines)) == [5, 7, 10, 16, 18, 19]


def test_several_files_and_kinds_in_one_summary(validate, write, tmp_path):
    (tmp_path / "d").mkdir()
    write(GOOD, "d/a.yaml")
    write(json.dumps({"apiVersion": "v1", "kind": "List", "items": [jobset(), jobset(name="b")]}), "d/b.json")
    write("apiVersion: v1\nkind: ConfigMap\n", "c.yaml")
    code, out, _ = validate("-f", "d", "-f", "c.yaml", "-f", write(TYPO))
    assert code == 1
    assert out.splitlines()[-1] == "4 files, 4 JobSets (1 object of other kinds passed over): 2 errors, 0 warnings"


def test_standard_input(validate, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TYPO.encode())))
    code, out, _ = validate("-f", "-")
    assert (code, out.split(" ")[0]) == (1, "<stdin>:6:3:")


def test_a_text_that_cannot_be_read_is_a_fault_and_what_stands_before_is_checked(validate, write):
    code, out, _ = validate("-f", write(f"{TYPO}---\na: [1\n"))
    assert code == 1
    assert "f.yaml:6:3: error: spec.sucessPolicy" in out
    assert "f.yaml:16:4: error: cannot be read: did not find expected ',' or ']'" in out
    assert out.splitlines()[-1] == "1 file, 1 JobSet: 3 errors, 0 warnings"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-f", "none.yaml"], "none.yaml: no such file or directory"),
        (["-f", "none.yaml", "-f", "good.yaml"], "none.yaml: no such file or directory"),
        (["-f", "other.yaml"], "no JobSet found in what -f names (1 file, 0 JobSets (1 object of other kinds passed over))"),
        (["-f", "empty.yaml"], "no JobSet found"),
        ([], "the following arguments are required: -f/--filename"),
        (["-f", "good.yaml", "-o", "xml"], "invalid choice"),
        (["-f", "good.yaml", "--feature-gates", "NoSuch=true"], "NoSuch"),
        (["-f", "good.yaml", "--server", "--kubeconfig", "none"], "kubeconfig none: no such file"),
    ],
)  # fmt: skip
def test_what_cannot_be_checked_ends_with_2_and_one_clear_line(validate, write, args, words):
    for name, text in {"good.yaml": GOOD, "other.yaml": "kind: Pod\n", "empty.yaml": ""}.items():
        write(text, name)
    code, _, err = validate(*args)
    assert code == 2
    assert words in err
    assert "jobset validate: " in err
    assert "Traceback" not in err


def test_a_cluster_that_is_not_there_ends_with_2(validate, write):
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }  # fmt: skip
    kubeconfig = write(yaml.safe_dump(config), "kubeconfig")
    code, out, err = validate("-f", write(GOOD), "--server", "--kubeconfig", kubeconfig)
    assert code == 2
    assert "127.0.0.1:1" in err
    assert len(err.splitlines()) == 1
    assert "0 JobSets" in out


def test_namespaces_asked_for_must_agree_with_the_manifest(validate, write):
    code, out, _ = validate("-f", write(GOOD), "-n", "other")
    assert code == 1
    assert 'metadata.namespace: Invalid value: "default": the namespace asked for with -n is "other"' in out
    assert validate("-f", write(GOOD), "-n", "default")[0] == 0


def test_feature_gates_are_those_of_the_cluster(validate, write):
    body = jobset(failurePolicy={"rules": [{"name": "r", "action": "RestartJob"}]})
    name = write(yaml.safe_dump(body))
    assert validate("-f", name)[0] == 1
    assert validate("-f", name, "--feature-gates=RestartJob=true")[0] == 0


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


def test_json_tells_problems_too(validate):
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


def test_the_mark_stands_under_its_place_after_tabs_and_wide_characters(write):
    text = json.dumps(jobset(), ensure_ascii=False).replace('"train"', '"\u4e16\u754c"')
    lines = marks("{\t" + text[1:])
    at = next(i for i, line in enumerate(lines) if "metadata.name" in line)
    before = lines[at + 1].split('"\u4e16')[0]
    assert lines[at + 2] == "".join("\t" if char == "\t" else " " for char in before) + "^" + "~" * 5


def test_of_a_long_line_the_place_is_shown(write):
    body = jobset(*(rjob(f"w{i}", replicas=-1 if i == 20 else 1) for i in range(40)))
    (line, mark) = next(
        (b, c) for a, b, c in zip(*(marks(json.dumps(body))[i:] for i in range(3)), strict=False) if "replicas" in a
    )
    assert len(line) < 170
    assert line[mark.index("^") :].startswith("-1")


def test_terminal_codes_in_a_manifest_do_not_reach_the_terminal(write):
    lines = marks(GOOD.replace("name: train", 'name: "\\e[31m\u202e"'))
    assert not [line for line in lines if "\x1b" in line or "\u202e" in line]
    assert any("\\x1b[31m" in line for line in lines)


def test_colours_only_where_they_are_asked_for(write):
    name = write(TYPO)
    plain, colored = io.StringIO(), io.StringIO()
    options = Options([name], FeatureGates({}))
    run(options, plain, io.StringIO())
    run(options, colored, io.StringIO(), color=True)
    assert "\x1b[" not in plain.getvalue()
    assert "\x1b[1;31merror:\x1b[0m" in colored.getvalue()


def test_findings_are_bounded_and_the_rest_is_counted(validate, write, monkeypatch):
    monkeypatch.setattr(findings, "MAX_FINDINGS", 3)
    code, out, _ = validate("-f", write("---\n".join([TYPO] * 4)))
    assert code == 1
    assert out.count(": error: ") == 3
    assert out.splitlines()[-2:] == ["and 5 more", "1 file, 4 JobSets: 8 errors, 0 warnings"]


def test_help_teaches(validate):
    code, out, _ = validate("--help")
    assert code == 0
    for words in ("examples:", "exit codes:", "helm template", "--server"):
        assert words in out


def test_the_installed_command(write):
    name = write(TYPO)
    command = [Path(sys.executable).with_name("jobset"), "validate", "-f", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 (ourselves)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("f.yaml:6:3: error: spec.sucessPolicy")


def test_offline_checks_do_not_load_the_client_of_the_cluster(write):
    name = write(GOOD)
    code = f"import sys; from app import cli; cli.main(['validate', '-f', {name!r}]); print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 (ourselves)
    assert done.stdout.splitlines()[-1] == "False"


def test_defaults_of_a_schema_are_set_as_the_api_server_sets_them():
    item = {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}, "q": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {"l": {"type": "array", "items": item}, "m": {"type": "object", "additionalProperties": item}},
    }
    value = {"l": [{}, {"p": "UDP"}, {"p": None, "q": None}, 5], "m": {"a": {"q": "x"}}, "other": {"l": [{}]}}
    assert with_defaults(value, schema) == {
        "l": [{"p": "TCP"}, {"p": "UDP"}, {"p": "TCP", "q": None}, 5],
        "m": {"a": {"q": "x", "p": "TCP"}},
        "other": {"l": [{}]},
    }


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "workers", "Bad_", "All", "x" * 70]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "a", "spec", "template"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
FIELDS = st.sampled_from(
    ["metadata", "spec", "spec.replicatedJobs", "spec.replicatedJobs.0", "spec.replicatedJobs.0.template.spec",
     "spec.network", "spec.coordinator", "spec.failurePolicy", "spec.volumeClaimPolicies", "metadata.labels",
     "metadata.name", "apiVersion", "kind", "status"]
)  # fmt: skip


@given(st.dictionaries(FIELDS, JUNK, max_size=3))
def test_no_object_makes_it_raise(changes):
    body = jobset()
    for field, value in changes.items():
        *parents, last = field.split(".")
        node = body
        for parent in parents:
            node = node.get(parent) if isinstance(node, dict) else node[0] if isinstance(node, list) and node else None
        if isinstance(node, dict):
            node[last] = value
        elif isinstance(node, list) and node:
            node[0] = value
    out = io.StringIO()
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(body).encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", stdin)
        code = run(Options(["-"], FeatureGates({}), output="json"), out, io.StringIO())
    report = json.loads(out.getvalue())
    assert (code == 1) == bool(report["errors"])
    for finding in report["findings"]:
        assert finding["line"] == 1
        assert finding["message"]


def test_rules_that_places_and_notes_go_by_exist():
    ids = {rule.id for group in rules().values() for rule in group}
    assert ids >= findings.AT_KEY | findings.NOTES
