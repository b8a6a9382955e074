"""`jobset validate` of what tools make or fill in: placeholders, workflows, repeated keys; and pull requests of GitHub."""

import json
from dataclasses import replace

import pytest
import yaml

from authoring.findings import Report
from cli.check import validate as validate_command
from cli.check.validate import Options
from tests.support.objects.jobsets import jobset, rjob
from tests.support.objects.validated import GOOD, TYPO, WARNED
from tests.support.pages.files import ROOT

PLACEHOLDERS = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: "${NAME}", namespace: <NAMESPACE>}
spec:
  replicatedJobs:
  - name: workers
    replicas: ${REPLICAS}
    template:
      spec:
        parallelism: 4
        completions: 4
        template:
          spec:
            restartPolicy: Never
            nodeSelector: {topology: "${TOPOLOGY}"}
            containers:
            - name: main
              image: ${IMAGE}
              command: [sh, -c, "echo ${RANK}"]
"""
WORKFLOW = """
apiVersion: argoproj.io/v1alpha1
kind: {kind}
metadata: {{name: train}}
spec:
  templates:
  - name: none
  - name: train
    resource:
      action: create
      manifest: |
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {{generateName: train-}}
        spec:
          replicatedJobs:
          - name: {name}
            template:
              spec:
                {field}: 2
                completions: 2
                template:
                  spec:
                    restartPolicy: Never
                    containers: [{{name: main, image: busybox}}]
"""
TWICE = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  replicatedJobs:
  - name: workers
    template:
      spec:
        parallelism: 1
        completions: 1
        template:
          spec:
            restartPolicy: Never
            containers: [{name: main, image: busybox}]
            restartPolicy: %s
"""


def found(validate, *args: str) -> list[tuple[str, str, int]]:
    _, out, _ = validate("-o", "json", *args)
    return [(each["severity"], each["rule"], each["line"]) for each in json.loads(out)["findings"]]


class TestPlaceholders:
    def test_are_one_finding_for_the_file(self, validate, write):
        assert found(validate, "-f", write(PLACEHOLDERS)) == [("error", "placeholders", 4)]
        code, out, _ = validate("-f", write(PLACEHOLDERS))
        assert code == 1
        assert "${NAME}, <NAMESPACE>, ${REPLICAS}, ${TOPOLOGY}, ${IMAGE}: placeholders" in out
        assert "`envsubst < f.yaml | jobset validate -f -`" in out

    def test_of_several_jobsets_too(self, validate, write):
        second = PLACEHOLDERS.replace("{NAME}", "{OTHER}")
        assert found(validate, "-f", write(f"{PLACEHOLDERS}---{second}")) == [("error", "placeholders", 4)]

    def test_are_a_warning_where_the_manifest_would_be_stored(self, validate, write):
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "IMAGE_PLACEHOLDER"}]}
        assert found(validate, "-f", write(jobset(rjob(pod=pod)))) == [("warning", "placeholders", 17)]
        _, out, _ = validate("-f", "f.yaml")
        assert "write the values in their places first" in out


class TestWorkflows:
    @pytest.mark.parametrize("kind", ["Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow"])
    def test_jobsets_in_them_are_checked_at_their_place(self, validate, write, kind: str):
        text = WORKFLOW.format(kind=kind, name="workers", field="parallelizm")
        if kind == "CronWorkflow":
            head, templates = text.split("spec:\n  templates:", 1)
            text = f"{head}spec:\n  workflowSpec:\n    templates:{templates.replace(chr(10), chr(10) + '  ')}"
        line = 1 + text[: text.index("parallelizm")].count("\n")
        assert ("error", "schema-unknown-field", line) in found(validate, "-f", write(text))

    def test_good_ones_count(self, validate, write):
        code, out, _ = validate("-f", write(WORKFLOW.format(kind="Workflow", name="workers", field="parallelism")))
        assert (code, out) == (0, "1 file, 1 JobSet (1 object of other kinds passed over), 0 errors, 0 warnings\n")

    def test_of_those_with_expressions_a_note_says_that_they_were_not_checked(self, validate, write):
        text = WORKFLOW.format(kind="Workflow", name="w-{{inputs.parameters.x}}", field="parallelism")
        assert found(validate, "-f", write(text)) == [("note", "workflow-manifest-unchecked", 11)]
        code, out, err = validate("-f", "f.yaml")
        assert (code, "a JobSet as text that was not checked: it has expressions in {{ }}" in out) == (2, True)
        assert "no JobSet found" in err

    def test_other_resources_are_passed_over(self, validate, write):
        text = WORKFLOW.format(kind="Workflow", name="w", field="x").replace("kind: JobSet", "kind: Job")
        assert found(validate, "--allow-none", "-f", write(text)) == []


class TestAKeyThatStandsTwice:
    def test_is_an_error_if_they_differ(self, validate, write):
        assert found(validate, "-f", write(TWICE % "OnFailure")) == [("error", "duplicate-key", 16)]

    @pytest.mark.parametrize(
        ("first", "second"), [("{a: '1'}", "{a: '2'}"), ("1", "true"), ("'1'", "1"), ("null", "{}")]
    )
    def test_values_are_compared_with_their_types(self, validate, write, first: str, second: str):
        text = f"{yaml.safe_dump(jobset())}x: {first}\nx: {second}\n"
        assert "duplicate-key" in {rule for _, rule, _ in found(validate, "-f", write(text))}

    def test_is_rendered(self, command, write):
        assert command("render", "-f", write(TWICE % "Never"))[0] == 0
        assert command("render", "-f", write(TWICE % "OnFailure"))[0] == 1


class TestPullRequests:
    def test_findings_are_commands_of_a_workflow(self, validate, write):
        code, out, _ = validate("-o", "github", "-f", write(TYPO))
        assert code == 1
        assert out.splitlines()[0] == (
            "::error file=f.yaml,line=6,endLine=6,col=3,endColumn=15,title=JobSet train%3A schema-unknown-field::"
            'spec.sucessPolicy: unknown field "sucessPolicy"; did you mean "successPolicy"?'
        )
        _, out, _ = validate("-o", "github", "-f", write(WARNED))
        assert out.startswith("::warning file=f.yaml,line=")

    def test_no_text_of_a_file_is_a_command(self, validate, write):
        text = yaml.safe_dump(jobset(name="a\n::error::b%0A")).replace(
            "kind: JobSet", "kind: JobSet\nx: |\n  ::notice::a"
        )
        _, out, _ = validate("-o", "github", "-f", write(text, "a,b.yaml"))
        lines = out.splitlines()
        assert all(line.startswith("::error file=a%2Cb.yaml,") for line in lines[:-1])
        assert len(lines) > 1
        assert "%250A" in out

    def test_what_was_not_checked_is_an_error(self, validate):
        code, out, _ = validate("-o", "github", "-f", "none.yaml")
        assert (code, out.splitlines()[0]) == (2, "::error title=jobset validate::none.yaml: no such file or directory")

    def test_a_good_file_has_none(self, validate, write):
        assert validate("-o", "github", "-f", write(GOOD)) == (0, "1 file, 1 JobSet, 0 errors, 0 warnings\n", "")


REPORTS: dict[str, Report] = {}


@pytest.fixture
def _checked_once(monkeypatch: pytest.MonkeyPatch):
    """The corpus is checked for the first form; the others report the same findings."""
    run_checks = validate_command._run_checks

    def report(options: Options) -> Report:
        asked = repr(replace(options, output=""))
        if asked not in REPORTS:
            REPORTS[asked] = run_checks(options)
        return REPORTS[asked]

    monkeypatch.setattr(validate_command, "_run_checks", report)


@pytest.mark.usefixtures("_checked_once")
@pytest.mark.parametrize("output", ["json", "yaml", "sarif", "github", "text"])
def test_every_manifest_of_the_corpus_can_be_reported_in_every_form(command, output: str):
    code, out, err = command("validate", "-f", str(ROOT / "tests/manifests/bad"), "-o", output)
    assert (code, err) == (1, "")
    assert out
    if output in {"json", "sarif"}:
        assert json.loads(out)
