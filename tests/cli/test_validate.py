"""`jobset validate`: which faults it finds in manifests, and its exit codes."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from api.features import FeatureGates
from authoring import findings
from authoring.checks import with_defaults
from authoring.rule_catalogue import rules
from cli.check.validate import Options, run
from tests.support.kubeconfigs import kubeconfig
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.objects.validated import GOOD, TYPO, WARNED


@pytest.mark.parametrize(("flags", "code"), [((), 0), (("--strict",), 1)])
def test_warnings_alone_are_faults_only_with_strict(validate, write, flags, code):
    assert validate("-f", write(GOOD + "---\n" + WARNED), *flags)[0] == code


def test_a_good_manifest_passes(validate, write):
    assert validate("-f", write(GOOD)) == (0, "1 file, 1 JobSet, 0 errors, 0 warnings\n", "")


def test_sets_that_were_stored_without_defaults_are_named(validate, write):
    """After `webhooks off` this is how to find them; a manifest without UID gets its defaults when it is sent."""
    bare, whole = jobset(name="bare"), stored(jobset(name="whole"))
    for js in (bare, whole):
        js["metadata"]["uid"] = "1"
    code, out, _ = validate("-f", write({"apiVersion": "v1", "kind": "List", "items": [bare, whole, jobset()]}))
    found = [line.partition("warning: ")[2] for line in out.splitlines() if "is stored without its default" in line]
    job = "spec.replicatedJobs[0].template.spec"
    assert [line.partition(", as")[0] for line in found] == [
        f"JobSet default/bare: {path}: is stored without its default"
        for path in ("spec.network.enableDNSHostnames", f"{job}.completionMode", f"{job}.template.spec.restartPolicy")
    ]
    assert "its pods have no DNS names; make the JobSet again: kubectl get jobset NAME" in found[0]
    assert (code, out.splitlines()[-1]) == (0, "1 file, 3 JobSets, 0 errors, 3 warnings")


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
    assert out.splitlines()[-1] == "1 file, 1 JobSet, 1 error, 0 warnings", out
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


def test_a_template_expression_is_named_and_its_value_is_not_judged(validate, write):
    code, out, _ = validate("-f", write(GOOD.replace("name: train", "name: {{ .Values.name }}")))
    assert code == 1
    assert out.splitlines()[-1] == "1 file, 1 JobSet, 1 error, 0 warnings"
    assert "{{ }} is a template (Helm, Argo): render it first" in out


def test_of_a_name_that_is_too_long_for_jobs_and_pods_only_the_longer_cut_is_named(validate, write):
    _, out, _ = validate("-f", write(yaml.safe_dump(jobset(rjob(completions=1), name="n" * 60))))
    assert (out.count("shorten metadata"), "name by 15" in out, "name by 7" in out) == (1, True, False), out


def test_a_jobset_name_that_makes_jobs_invalid_is_marked_once_where_it_stands(validate, write):
    js = jobset(rjob("a"), rjob("b"), rjob("C"), name="llama3.1")
    _, out, _ = validate("-f", write(yaml.safe_dump(js, sort_keys=False)), "-o", "json")
    lines = yaml.safe_dump(js, sort_keys=False).splitlines()
    told = [(lines[each["line"] - 1].strip(), each["path"]) for each in json.loads(out)["findings"]]
    assert told == [("name: llama3.1", "spec.replicatedJobs[0].name"), ("- name: C", "spec.replicatedJobs[2].name")]


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


def test_standard_input(validate, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TYPO.encode())))
    code, out, _ = validate("-f", "-")
    assert (code, out.split(" ")[0]) == (1, "<stdin>:6:3:")


def test_a_text_that_cannot_be_read_is_a_fault_and_what_stands_before_is_checked(validate, write):
    code, out, _ = validate("-f", write(f"{TYPO}---\na: [1\n"))
    assert code == 1
    assert "f.yaml:6:3: error: spec.sucessPolicy" in out
    assert "f.yaml:16:4: error: cannot be read: did not find expected ',' or ']'" in out
    assert out.splitlines()[-1] == "1 file, 1 JobSet, 3 errors, 0 warnings"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-f", "none.yaml"], "none.yaml: no such file or directory"),
        (["-f", "none.yaml", "-f", "good.yaml"], "none.yaml: no such file or directory"),
        (["-f", "other.yaml"], "no JobSet found in these files (1 file, 0 JobSets (1 object of other kinds passed over))"),
        (["-f", "empty.yaml"], "no JobSet found"),
        ([], "no file is named: give files or directories"),
        (["none.yaml", "--allow-none"], "none.yaml: no such file or directory"),
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


def test_files_are_named_with_and_without_the_flag(validate, write):
    first, second, third = (write(GOOD, name) for name in ("a.yaml", "b.yaml", "c.yaml"))
    code, out, _ = validate(first, second, "-f", third)
    assert (code, out.splitlines()[-1]) == (0, "3 files, 3 JobSets, 0 errors, 0 warnings")
    assert validate("--strict", first)[0] == 0
    assert validate(".", "-o", "json")[1].startswith('{\n  "files": 3')


def test_changed_files_need_not_hold_a_jobset_if_that_is_allowed(validate, write):
    other = write("kind: Pod\n")
    code, out, err = validate("--allow-none", other)
    assert (code, err) == (0, "")
    assert out == "1 file, 0 JobSets (1 object of other kinds passed over), 0 errors, 0 warnings\n"
    assert validate("--allow-none", other, write(TYPO, "typo.yaml"))[0] == 1
    Path("empty").mkdir()
    assert validate("--allow-none", "empty")[0] == 0
    assert validate("empty")[0] == 2


def test_a_cluster_that_is_not_there_ends_with_2(validate, write, tmp_path):
    nowhere = kubeconfig(tmp_path, "http://127.0.0.1:1")
    code, out, err = validate("-f", write(GOOD), "--server", "--kubeconfig", nowhere)
    assert code == 2
    assert "127.0.0.1:1" in err
    assert len(err.splitlines()) == 1
    assert out == "1 file, 1 JobSet, 0 errors, 0 warnings\n"
    code, out, _ = validate("-f", write(TYPO, "typo.yaml"), "--server", "--kubeconfig", nowhere)
    assert (code, out.splitlines()[-1]) == (2, "1 file, 1 JobSet, 2 errors, 0 warnings"), "found without the cluster"


def test_namespaces_asked_for_must_agree_with_the_manifest(validate, write):
    code, out, _ = validate("-f", write(GOOD), "-n", "other")
    assert code == 1
    assert 'metadata.namespace: Invalid value: "default": the namespace asked for with -n is "other"' in out
    assert validate("-f", write(GOOD), "-n", "default")[0] == 0


def test_a_namespace_has_the_name_of_one(validate, write):
    body = jobset()
    body["metadata"]["namespace"] = "Team_A"
    code, out, _ = validate("-f", write(yaml.safe_dump(body)))
    assert code == 1
    assert 'error: metadata.namespace: Invalid value: "Team_A": a lowercase RFC 1123 label must consist of' in out
    code, _, err = validate("-f", write(GOOD), "-n", "team.a")
    assert code == 2
    assert "argument -n/--namespace: 'team.a' is not a name of a namespace: a lowercase" in err


def test_feature_gates_are_those_of_the_cluster(validate, write):
    body = jobset(failurePolicy={"rules": [{"name": "r", "action": "RestartJob"}]})
    name = write(yaml.safe_dump(body))
    code, out, _ = validate("-f", name)
    flag = "--feature-gates=RestartJob=true"
    assert code == 1
    assert (
        f"or run the manager with {flag}; if yours runs so, check with jobset validate {flag}, or with --server, which asks it\n"
        in out
    )
    assert validate("-f", name, flag)[0] == 0


def test_the_installed_command(write):
    name = write(TYPO)
    command = [Path(sys.executable).with_name("jobset"), "validate", "-f", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 (ourselves)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("f.yaml:6:3: error: spec.sucessPolicy")


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
    assert ids >= findings.RULES_AT_KEY | findings.NOTE_RULES


def test_the_gates_of_a_cluster_are_those_of_its_manager(validate, write):
    code, _, err = validate(write(GOOD), "--server", "--feature-gates=ElasticJobSet=true")
    assert (code, err) == (2, "jobset validate: --server asks the manager there: leave out --feature-gates\n")
