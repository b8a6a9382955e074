"""What the Python client says about manifests and objects that cannot be what their author means."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobset_client import JobSet, JobSetSpec, ReplicatedJob, operations, words
from jobset_client.builders import jobset as built
from jobset_client.errors import UnreadableError
from jobset_client.models import FailurePolicy
from jobset_client.words import MAX_FAULTS
from kube.model.jsontree import dig, set_in
from kube.model.suggest import nearest
from manifests import crd
from tests.app.test_words_of_messages import RICH, WRONG, check, places
from tests.support.objects.jobsets import jobset, rjob
from tests.support.played.operations import event, listed, pieces, play, said
from webhooks.jobset.schema.unknown import UnknownFields

JSON = dict[str, Any]
PYDANTIC = re.compile(r"Input should|valid (?:string|list|dictionary)|unicode string|interpret|parse|<\w+ \w+>")
HEAD = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n"


ADVICE = "keep_unknown=True reads"
"""Python that the user may write."""


def check_words(message: str) -> None:
    check(message.replace(ADVICE, ""))
    assert PYDANTIC.search(message) is None, message


def refused(read: Any, *given: Any, **more: Any) -> UnreadableError:
    with pytest.raises(UnreadableError) as caught:
        read(*given, **more)
    check_words(str(caught.value))
    return caught.value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "a manifest is an object with apiVersion, kind, metadata and spec, and this is an array"),
        ("kind: Job", 'line 1: kind is "Job", not "JobSet"'),
        ("\napiVersion: v1", 'line 2: apiVersion is "v1", not "jobset.x-k8s.io/v1alpha2"'),
        ("", "the text holds no document: it is empty, or has only comments"),
        ("# later\n---\n", "the text holds no document: it is empty, or has only comments"),
        (
            "a: b\n---\n\nc: d",
            "the text holds 2 documents, which begin in lines 1, 4; from_yaml takes one: split it at the lines `---`",
        ),
        (
            "a: b: c",
            (
                "line 1, column 5: cannot be read: mapping values are not allowed in this context;"
                " quote a value that contains ': ', or check the indentation"
            ),
        ),
        (
            "a:\n  b: [1\n",
            (
                "line 2, column 6: cannot be read: did not find expected ',' or ']' while parsing a flow sequence;"
                " put a comma before it, or close the bracket"
            ),
        ),
        (
            "a: 1\n  b: 2\n c: 3",
            (
                "line 2, column 4: cannot be read: mapping values are not allowed in this context;"
                " quote a value that contains ': ', or check the indentation"
            ),
        ),
        (
            "a: {{ .Values.x }}",
            "line 1, column 5: cannot be read: a: a key must be text; {{ }} is a template (Helm, Argo): render it first",
        ),
        (
            "a: *x",
            "line 1, column 4: cannot be read: the alias *x has no anchor &x before it; define it, or quote the *",
        ),
        ("b: 1\na: \x07", "line 2, column 4: cannot be read: control characters are not allowed; remove the character"),
        (b"a: \xff", "the text cannot be read: byte 3 is not UTF-8"),
        (
            "a: " + "[" * 5000,
            "line 1, column 203: cannot be read: more than 200 mappings and lists inside each other; flatten it",
        ),
        (
            "a: &b {c: *b}",
            "line 1, column 11: cannot be read: the anchor &b contains itself; an alias cannot stand in its own anchor",
        ),
        ("a: .inf", "line 1, column 4: cannot be read: a: JSON has no such number: quote it if text is meant"),
        ("a: !!int x", "line 1, column 10: cannot be read: 'x' is no !!int; correct the value or its tag"),
        (
            "jobset.yaml",
            "this is the name of a file, not what is in it: from_yaml(Path('jobset.yaml').read_text())",
        ),
        (
            None,
            'this is not the text of a manifest; read the file first: from_yaml(Path("jobset.yaml").read_text())',
        ),
        (
            "metadata: {name: a}\nspec:\n  suspend: maybe",
            (
                'JobSet a: line 3: spec.suspend: Invalid value: "maybe": must be of type boolean, is a string;'
                " write true or false, without quotes"
            ),
        ),
        (
            "metadata: {name: a}\nspec:\n  suspend: true\n  suspend: false",
            'the text has a key twice: line 4: "suspend" stands in line 3, too: remove one',
        ),
        (
            "a: &b {c: 1, c: 2}\nd: [*b]\na: {<<: *b, c: 3}",
            (
                "the text has a key twice:\n"
                '- line 1: "c" stands in line 1, too: remove one\n'
                '- line 3: "a" stands in line 1, too: remove one'
            ),
        ),
        (
            "spec:\n  network:\n  - x",
            (
                'JobSet without a name: line 2: spec.network: Invalid value: ["x"]: must be of type object, is an array;'
                " write an object"
            ),
        ),
        (
            "spec:\n  replicatedJobs:\n  - name: a",
            'JobSet without a name: line 3: spec.replicatedJobs[0].template: Required value: add "template"',
        ),
        (
            "metadata: {name: a, labels: {gpus: 8, 9: b}}",
            (
                "JobSet a: line 1: metadata.labels.gpus: Invalid value: 8: must be of type string, is an integer;"
                ' write it in quotes: "8"'
            ),
        ),
        (
            "spec: {successPolicy: {minSucceeded: []}}",
            (
                "JobSet without a name: line 1: spec.successPolicy.minSucceeded: Invalid value: []:"
                " must be of type integer or string, is an array; write a whole number or a text"
            ),
        ),
    ],
)
def test_a_text_that_is_no_jobset_is_said_with_its_line(text: Any, message: str):
    assert str(refused(JobSet.from_yaml, text)) == message


def test_a_path_is_no_text():
    assert "read the file first" in str(refused(JobSet.from_yaml, Path("jobset.yaml")))


@pytest.mark.parametrize(("body", "what"), [(None, "null"), ("x", "a string"), ([{}], "an array"), (3, "an integer")])
def test_what_is_no_object_is_said(body: Any, what: str):
    assert str(refused(JobSet.from_dict, body)).endswith(f"and this is {what}")


def test_all_faults_of_a_document_come_at_once_in_the_order_of_its_lines():
    text = (
        f"{HEAD}metadata:\n  name: train\n  label: {{a: b}}\nspec:\n  maxrestarts: 3\n  replicatedJob: []\n"
        "  suspend: maybe\n  replicatedJobs:\n  - name: 3\n    template: {}\n    replica: 2\n  network:\n"
        "    enableDNSHostname: true\n"
    )
    error = refused(JobSet.from_yaml, text)
    first = sorted(f'"{field.alias or name}"' for name, field in JobSetSpec.model_fields.items())[:8]
    assert list(error.causes) == [
        'line 5: metadata.label: unknown field "label"; did you mean "labels"?',
        f'line 7: spec.maxrestarts: unknown field "maxrestarts"; the fields here are: {", ".join(first)}, ...',
        'line 8: spec.replicatedJob: unknown field "replicatedJob"; did you mean "replicatedJobs"?',
        (
            'line 9: spec.suspend: Invalid value: "maybe": must be of type boolean, is a string;'
            " write true or false, without quotes"
        ),
        (
            "line 11: spec.replicatedJobs[0].name: Invalid value: 3: must be of type string, is an integer;"
            ' write it in quotes: "3"'
        ),
        'line 13: spec.replicatedJobs[0].replica: unknown field "replica"; did you mean "replicas"?',
        (
            'line 15: spec.network.enableDNSHostname: unknown field "enableDNSHostname";'
            ' did you mean "enableDNSHostnames"?'
        ),
    ]
    assert str(error).splitlines()[0] == "JobSet train:"
    assert str(error).splitlines()[-1].startswith("keep_unknown=True")


MISPLACED = {
    "dependsOn: []": ("dependsOn", "spec.replicatedJobs[*]"),
    "spec: {dependsOn: []}": ("spec.dependsOn", "spec.replicatedJobs[*]"),
    "spec: {maxRestarts: 3}": ("spec.maxRestarts", "spec.failurePolicy"),
    "spec: {replicas: 3}": ("spec.replicas", "spec.replicatedJobs[*]"),
    "spec: {failurePolicy: {suspend: true}}": ("spec.failurePolicy.suspend", "spec"),
    "suspend: true": ("suspend", "spec"),
    "spec: {parallelism: 3}": ("spec.parallelism", "spec.replicatedJobs[*].template.spec"),
    "spec: {replicatedJobs: [{name: a, template: {}, restartPolicy: Never}]}": (
        "spec.replicatedJobs[0].restartPolicy",
        "spec.replicatedJobs[0].template.spec.template.spec",
    ),
}
SCHEMA = UnknownFields(crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


@pytest.mark.parametrize("text", MISPLACED)
def test_a_field_of_another_place_is_said_to_belong_there_as_by_the_commands(text: str):
    path, place = MISPLACED[text]
    error = refused(JobSet.from_yaml, text)
    message = f'unknown field "{path.rpartition(".")[2]}"; it belongs to {place}'
    assert str(error) == f"JobSet without a name: line 1: {path}: {message}"
    [finding] = SCHEMA.find(yaml.safe_load(text))
    assert finding.fix == f"it belongs to {place}"


def test_a_misspelt_field_of_here_does_not_belong_elsewhere():
    assert 'did you mean "suspend"?' in str(refused(JobSet.from_yaml, "spec: {suspended: true}"))


def test_texts_are_no_numbers_and_no_truth_values():
    """As for kubectl."""
    text = "spec:\n  suspend: 'yes'\n  failurePolicy:\n    maxRestarts: '3'\n"
    assert [cause.partition(";")[0] for cause in refused(JobSet.from_yaml, text).causes] == [
        'line 2: spec.suspend: Invalid value: "yes": must be of type boolean, is a string',
        'line 4: spec.failurePolicy.maxRestarts: Invalid value: "3": must be of type integer, is a string',
    ]


def test_another_version_is_named_beside_the_other_faults_and_another_kind_alone():
    text = "apiVersion: jobset.x-k8s.io/v1\nkind: {}\nspec:\n  replicatedJob: []\n"
    version = 'line 1: apiVersion is "jobset.x-k8s.io/v1", not "jobset.x-k8s.io/v1alpha2"'
    first, second = refused(JobSet.from_yaml, text.format("JobSet")).causes
    assert first == version
    assert 'unknown field "replicatedJob"' in second
    assert refused(JobSet.from_yaml, text.format("Job")).causes == (version, 'line 2: kind is "Job", not "JobSet"')


def test_unknown_fields_of_a_newer_version_are_read_where_that_is_asked_for():
    body = jobset(rjob(), zebra={"a": 1})
    error = str(refused(JobSet.from_dict, body))
    assert error.endswith("; keep_unknown=True reads unknown fields nevertheless, for a cluster with a newer JobSet")
    assert JobSet.from_dict(body, keep_unknown=True).to_dict() == body
    assert "keep_unknown" not in str(refused(JobSet.from_dict, jobset(rjob(), networks={})))


def test_a_message_names_no_more_faults_than_can_be_read():
    body = jobset(*[rjob(str(number), zebra=1) for number in range(MAX_FAULTS + 7)])
    error = refused(JobSet.from_dict, body)
    assert len(error.causes) == MAX_FAULTS + 7
    assert "\n- and 7 more\n" in str(error)


def test_what_kubectl_prints_is_read():
    metadata = {
        "name": "a",
        "finalizers": ["x/y"],
        "ownerReferences": [{"kind": "Workflow"}],
        "managedFields": [{"manager": "kubectl"}],
        "selfLink": "/x",
        "deletionGracePeriodSeconds": 0,
    }
    assert JobSet.from_dict({"metadata": metadata}).to_dict()["metadata"] == metadata


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: JobSetSpec(replicated_job=[]),
            'JobSetSpec: replicated_job: unknown field "replicated_job"; did you mean "replicated_jobs"?',
        ),
        (lambda: JobSetSpec(replicatedJob=None), '"replicatedJob"; did you mean "replicatedJobs"?'),
        (
            lambda: built("a", suspended=True),
            'JobSetSpec: suspended: unknown field "suspended"; did you mean "suspend"?',
        ),
        (
            lambda: JobSetSpec(failure_policy={"max_restart": 3}),
            'JobSetSpec: failure_policy.max_restart: unknown field "max_restart"; did you mean "max_restarts"?',
        ),
        (
            lambda: ReplicatedJob(name=3),
            (
                'ReplicatedJob:\n- name: Invalid value: 3: must be of type string, is an integer; write it in quotes: "3"'
                '\n- template: Required value: add "template"'
            ),
        ),
        (
            lambda: setattr(JobSetSpec(), "max_restarts", 3),
            'JobSetSpec: max_restarts: unknown field "max_restarts"; the fields here are: "active_deadline_seconds", ',
        ),
        (
            lambda: setattr(FailurePolicy(), "maxRestarts", 3),
            'FailurePolicy: maxRestarts: unknown field "maxRestarts"; did you mean "max_restarts"?',
        ),
    ],
)
def test_constructors_and_attributes_refuse_what_there_is_not(make: Any, message: str):
    assert message in str(refused(make))


def test_what_the_api_server_gives_may_have_more_and_less_than_is_known():
    body = jobset(rjob(newer=1), namespace="team-a", newest={"x": 1}, network=None)
    body["status"] = {"conditions": None, "later": 3, "replicatedJobsStatus": [{"name": "workers", "more": 1}]}
    body["metadata"] |= {"uid": "u", "shinier": True, "labels": None}
    watched = [listed(body), *pieces(event("MODIFIED", body))]
    for operation, answers in (
        (operations.get("team-a", "train"), [said(body)]),
        (operations.create("team-a", JobSet()), [said(body)]),
        (operations.list_("team-a"), [listed(body)]),
        (operations.watch("team-a", timeout=9), watched),
        (operations.wait("team-a", "train", "ready", timeout=9), [said(body), *watched]),
        (operations.suspend("team-a", "train"), [said(body), said(body)]),
    ):
        played = play(operation, answers)
        assert played.error is None
        for js in (played.result, *(one.jobset for one in played.emitted)):
            assert not isinstance(js, JobSet) or js.to_dict()["spec"]["newest"] == {"x": 1}


def test_no_words_of_python_about_any_wrong_value_at_any_place():
    found = 0
    for place in places(RICH):
        for value in WRONG:
            if value != dig(RICH, *place):
                try:
                    JobSet.from_dict(set_in(RICH, place, value))
                except UnreadableError as error:
                    check_words(str(error))
                    found += 1
    assert found > 100


@pytest.mark.parametrize(
    "word", ["replicatedJob", "Suspend", "maxRestart", "nettwork", "zebra", "ttlSecondsAfterFinish"]
)
def test_the_same_name_is_suggested_as_by_the_commands(word: str):
    names = [field.serialization_alias or name for name, field in JobSetSpec.model_fields.items()]
    assert words.nearest(word, names) == nearest(word, names)
