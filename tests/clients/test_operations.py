"""What the Python client asks for and in which order, and what it makes of the answers."""

from typing import Any

import pytest

from jobset_client import JobSet, errors, operations
from jobset_client.core import MAX_ATTEMPTS, Answer, Deadline
from tests.support.objects.jobsets import jobset, rjob
from tests.support.played.operations import Clock, a_set, event, listed, pieces, play, said, status

JSON = dict[str, Any]


GONE = status(404, "NotFound", 'jobsets "train" not found', name="train", kind="jobsets")
NAMED = JobSet.from_dict({"metadata": {"name": "train"}})


def test_create_sends_what_the_user_wrote_and_not_what_the_server_did():
    js = JobSet.from_dict(a_set())
    played = play(operations.create("other", js), [said(a_set(version=2), 201)])
    (call,) = played.calls
    assert (call.method, call.path) == ("POST", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team-a/jobsets")
    assert call.query == (("fieldManager", "jobset-client"), ("fieldValidation", "Strict"))
    assert call.body == jobset(rjob(replicas=2), namespace="team-a")
    assert played.result.metadata.resource_version == "2"


def test_a_dry_run_stores_nothing():
    js = JobSet.from_dict({"metadata": {"name": "a"}})
    (call,) = play(operations.create("other", js, dry_run=True), [said(a_set())]).calls
    assert call.path.endswith("/namespaces/other/jobsets")
    assert ("dryRun", "All") in call.query


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "Train", "a_b", "-a", "a" * 254, None, 3, JobSet()])
def test_what_is_no_name_is_not_sent(name: Any):
    what = (
        "a name is a text, and this is " if not isinstance(name, str) else "' is not a name: lower case letters, digits"
    )
    for operation in (operations.get, operations.suspend, operations.resume, operations.explain):
        played = play(operation("team-a", name), [])
        assert (type(played.error), played.steps) == (errors.UnreadableError, [])
        assert what in str(played.error)
    assert what in str(play(operations.delete("team-a", name), []).error)
    assert what in str(play(operations.wait("team-a", name, "ready", timeout=1), []).error)


def test_what_is_no_namespace_is_not_sent():
    for operation in (
        operations.get("Team A", "a"),
        operations.list_("Team A"),
        operations.create("Team A", JobSet()),
    ):
        played = play(operation, [])
        assert (str(played.error), played.steps) == (
            "'Team A' is not a namespace: lower case letters, digits, - and . only",
            [],
        )


@pytest.mark.parametrize(("given", "what"), [(None, "null"), ({"metadata": {}}, "an object"), ("a", "a string")])
def test_only_a_jobset_is_created(given: Any, what: str):
    error = play(operations.create("team-a", given), []).error
    make = "from_yaml" if isinstance(given, str) else "from_dict"
    assert str(error) == f"create takes a JobSet, and this is {what}: JobSet.{make}(...) makes one"


def test_unknown_fields_of_templates_are_named_with_what_was_likely_meant():
    pod = "spec.replicatedJobs[0].template.spec.template.spec"
    message = (
        'JobSet in version "v1alpha2" cannot be handled as a JobSet: strict decoding error: '
        f'unknown field "{pod}.containerss", unknown field "{pod}.backoffLimit", unknown field "{pod}.zzz"'
    )
    error = play(operations.create("team-a", NAMED), [status(400, "BadRequest", message)]).error
    assert isinstance(error, errors.InvalidError)
    assert (error.status, error.reason) == (400, "BadRequest")
    assert error.causes == (
        f'{pod}.containerss: unknown field "containerss"; did you mean "containers"?',
        f'{pod}.backoffLimit: there is no field "backoffLimit" here, but in another part: move it',
        f'{pod}.zzz: unknown field "zzz"; remove it',
    )
    assert str(error) == "\n- ".join(["cannot create JobSet team-a/train:", *error.causes])


def test_another_refusal_of_a_creation_stays_as_it_is():
    error = play(operations.create("team-a", NAMED), [status(400, "BadRequest", "no")]).error
    assert (type(error), str(error)) == (errors.ApiError, "cannot create JobSet team-a/train: no")


def test_a_jobset_of_another_namespace_than_the_caller_says_is_not_created():
    js = JobSet.from_dict(a_set())
    played = play(operations.create("default", js, namespace="team-b"), [])
    assert (str(played.error), played.steps) == (
        "JobSet team-a/train names another namespace than 'team-b': change one of them",
        [],
    )
    js.metadata.namespace = None
    (call,) = play(operations.create("default", js, namespace="team-b"), [said(a_set())]).calls
    assert "/namespaces/team-b/" in call.path


def test_a_timeout_is_a_number_of_seconds():
    error = play(operations.wait("team-a", "train", "ready", timeout="5"), []).error
    assert str(error) == "a timeout is a number of seconds, and this is a string"


REFUSALS = [
    (GONE, errors.NotFoundError, 'cannot get JobSet team-a/train: jobsets "train" not found'),
    (GONE, errors.NotFoundError, "not found; list() gives those of a namespace, list(everywhere=True) all"),
    (
        status(404, "NotFound", 'namespaces "x" not found', name="x", kind="namespaces"),
        errors.NotFoundError,
        "not found; create that namespace first, or choose another",
    ),
    (status(404, "NotFound", "no such jobset"), errors.NotFoundError, "no such jobset"),
    (Answer(404, b"404 page not found\n"), errors.NotServedError, "an administrator has to install JobSet"),
    (
        status(404, "NotFound", "the server could not find the requested resource"),
        errors.NotServedError,
        "an administrator has to install JobSet",
    ),
    (status(403, "Forbidden", "no right", name="train"), errors.ForbiddenError, "no right; ask an administrator"),
    (status(401, "Unauthorized", "who"), errors.UnauthorizedError, "log in again"),
    (status(409, "AlreadyExists", "is there", name="a"), errors.AlreadyExistsError, "choose another name"),
    (status(409, "Conflict", "changed", name="a"), errors.ConflictError, "get it again"),
    (status(503, "ServiceUnavailable", "down"), errors.BusyError, "down; try again later"),
    (Answer(502, b"<html>bad gateway"), errors.BusyError, "<html>bad gateway"),
    (Answer(400, b"[]"), errors.ApiError, "no message"),
    (Answer(418, b'{"details": [], "message": null}'), errors.ApiError, "cannot get JobSet team-a/train: "),
]


@pytest.mark.parametrize(("answer", "kind", "words"), REFUSALS)
def test_a_refusal_says_why_and_what_to_do(answer: Answer, kind: type[Exception], words: str):
    played = play(operations.get("team-a", "train"), [answer, status(403, "Forbidden", "no right to list")])
    assert type(played.error) is kind
    assert words in str(played.error)
    assert played.error.status == answer.status


def test_a_name_that_there_is_not_is_answered_with_those_that_there_are():
    others = [{"metadata": {"name": name}} for name in ("train", "eval")]
    played = play(operations.get("team-a", "trainn"), [GONE, listed(*others)])
    assert type(played.error) is errors.NotFoundError
    assert str(played.error).endswith('; did you mean "train"? there are: "eval", "train"')
    assert played.calls[1].query == (("limit", "100"),)
    assert str(play(operations.get("team-a", "x"), [GONE, listed(*others)]).error).endswith(
        '; there are: "eval", "train"'
    )
    assert str(play(operations.get("team-a", "x"), [GONE, listed()]).error).endswith("list(everywhere=True) all")


def test_an_invalid_jobset_names_all_its_mistakes():
    causes = [{"field": "spec.a", "message": "bad"}, {"message": "worse"}, None, {"field": None}]
    answer = status(422, "Invalid", "is invalid", name="train", causes=causes)
    error = play(operations.create("team-a", JobSet()), [answer]).error
    assert isinstance(error, errors.InvalidError)
    assert error.causes == ("spec.a: bad", "worse", "")


def test_each_mistake_of_an_invalid_jobset_has_a_line():
    causes = [{"field": "spec.a", "message": "bad"}, {"field": "spec.b", "message": "worse"}]
    answer = status(422, "Invalid", "train is invalid: [spec.a: bad, spec.b: worse]", name="train", causes=causes)
    error = play(operations.create("team-a", JobSet()), [answer]).error
    assert str(error).splitlines()[-3:] == [
        "cannot create JobSet team-a/...: train is invalid:",
        "- spec.a: bad",
        "- spec.b: worse",
    ]


def test_a_cause_that_names_no_field_is_not_shown():
    causes = [{"field": "metadata.name", "message": "bad"}, {"field": "<nil>", "message": "not all was checked"}]
    message = '"" is invalid: [metadata.name: bad, <nil>: not all was checked]'
    error = play(operations.create("team-a", JobSet()), [status(422, "Invalid", message, causes=causes)]).error
    assert str(error) == 'cannot create JobSet team-a/...: "" is invalid: metadata.name: bad'
    assert error.causes == ("metadata.name: bad",)


def test_a_selector_that_is_refused_is_shown():
    refusal = status(400, "BadRequest", "found '='")
    for operation in (operations.list_("a", labels="x==y=z"), operations.watch("a", labels="x==y=z", timeout=9)):
        assert "JobSets with labels 'x==y=z': found '='" in str(play(operation, [refusal]).error)


def test_an_answer_that_is_no_json_is_said():
    played = play(operations.get("team-a", "train"), [Answer(200, b"hello")])
    assert "the answer is not JSON" in str(played.error)


def test_warnings_of_the_api_server_are_python_warnings():
    header = r'299 - "first, with a \"quote\"", 299 - "second"'
    with pytest.warns(errors.JobSetWarning) as caught:
        play(operations.get("team-a", "train"), [said(a_set(), warnings=(header, "299 nothing"))])
    assert [str(one.message) for one in caught] == ['first, with a "quote"', "second"]


def test_a_busy_server_is_asked_again_as_often_as_it_says_but_not_for_ever():
    later = Answer(429, b"", retry_after="1")
    played = play(operations.get("team-a", "train"), [later, said(a_set())])
    assert (played.slept, played.result.metadata.name) == (1, "train")
    played = play(operations.get("team-a", "train"), [later] * 99)
    assert (len(played.calls), type(played.error)) == (MAX_ATTEMPTS, errors.BusyError)


def test_only_what_changes_nothing_is_repeated_after_a_broken_connection():
    broken = errors.UnreachableError("broken")
    assert play(operations.get("team-a", "train"), [broken, said(a_set())]).result is not None
    assert play(operations.get("team-a", "train"), [broken, broken]).error is broken
    assert play(operations.create("team-a", JobSet()), [broken]).error is broken


def test_a_list_is_read_in_pages():
    played = play(
        operations.list_("a", everywhere=True, labels="team=a"), [listed(a_set(), more="t"), listed(a_set(uid="v"))]
    )
    assert [js.metadata.uid for js in played.result] == ["u", "v"]
    assert played.calls[0].path == "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
    assert played.calls[0].query == (("labelSelector", "team=a"), ("limit", "500"))
    assert ("continue", "t") in played.calls[1].query


def test_a_list_begins_again_once_where_the_server_has_forgotten_it():
    expired = status(410, "Expired", "too old")
    played = play(operations.list_("team-a"), [listed(a_set(), more="t"), expired, listed(a_set())])
    assert len(played.result) == 1
    again = play(operations.list_("team-a"), [expired, expired])
    assert isinstance(again.error, errors.ExpiredError)


def test_a_list_that_is_too_long_is_an_error_and_no_part_of_the_truth():
    played = play(operations.list_("team-a", most=1), [listed(a_set(), a_set(uid="v"), more="t")])
    assert "there are more than 1 JobSet: narrow" in str(played.error)
    assert len(played.calls) == 1


def test_a_list_without_items_is_empty():
    assert play(operations.list_("team-a", most=1), [said({"items": None, "metadata": None})]).result == []


def test_delete_asks_for_the_end():
    (call,) = play(operations.delete("team-a", "train", propagation="Foreground"), [said({"kind": "Status"})]).calls
    assert (call.method, call.body["propagationPolicy"]) == ("DELETE", "Foreground")


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (a_set(ready=2), "ready"),
        (a_set("Suspended", suspend=True), "suspended"),
        (a_set(ended="Completed"), "completed"),
        (a_set(ended="Failed"), "failed"),
        (a_set(ended="Failed"), "finished"),
    ],
)
def test_a_wait_ends_at_once_in_the_state(body: JSON, state: Any):
    played = play(operations.wait("team-a", "train", state), [said(body)])
    assert (played.result.metadata.name, len(played.calls)) == ("train", 1)


def test_a_wait_watches_until_the_state_comes():
    answers = [
        said(a_set()),
        listed(a_set()),
        *pieces(event("MODIFIED", a_set(ready=1, version=11)), event("MODIFIED", a_set(ready=2, version=12))),
    ]
    played = play(operations.wait("team-a", "train", "ready"), answers)
    assert played.result.status.replicated_jobs_status[0].ready == 2
    assert played.asked == ["GET train", "GET jobsets", "GET jobsets"]
    assert dict(played.calls[2].query)["fieldSelector"] == "metadata.name=train"
    assert dict(played.calls[2].query)["resourceVersion"] == "10"


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([listed(a_set()), *pieces(event("MODIFIED", a_set(ended="Failed")))], "has failed: its end"),
        ([listed(a_set()), *pieces(event("DELETED", a_set()))], "was deleted"),
        ([listed()], "was deleted"),
        ([listed(a_set(uid="another", ended="Completed"))], "was deleted"),
    ],
)
def test_a_wait_ends_when_the_state_will_never_come(answers: list[Answer], words: str):
    played = play(operations.wait("team-a", "train", "completed"), [said(a_set()), *answers])
    assert isinstance(played.error, errors.NeverError)
    assert str(played.error) == f"JobSet team-a/train {words}; it will never be completed"


def test_a_wait_for_a_set_that_is_gone_already_is_both_kinds_of_error():
    error = play(operations.wait("team-a", "train", "completed"), [GONE, listed()]).error
    assert isinstance(error, errors.NeverError)
    assert isinstance(error, errors.NotFoundError)
    assert error.status == 404
    assert str(error).endswith("it was deleted before, or never created: it will never be completed")


def test_a_state_that_there_is_not_is_named():
    played = play(operations.wait("team-a", "train", "Ready"), [])
    assert isinstance(played.error, errors.JobSetError)
    assert '"Ready" is not a state; there are: completed, failed, finished, ready, suspended' in str(played.error)


def test_a_set_that_is_being_deleted_is_not_waited_for():
    body = a_set()
    body["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    played = play(operations.wait("team-a", "train", "ready"), [said(body)])
    assert isinstance(played.error, errors.NeverError)
    assert str(played.error) == "JobSet team-a/train is being deleted; it will never be ready"


def test_a_wait_has_a_timeout():
    clock = Clock()
    first = JobSet.from_dict(a_set())
    answers = [listed(a_set()), Answer(), *[Answer(body=event("BOOKMARK", a_set()))] * 99]
    played = play(operations.until(first, "ready", Deadline(5, clock)), answers, clock)
    assert isinstance(played.error, TimeoutError)
    assert str(played.error).startswith(
        "JobSet team-a/train: not ready after 5 s; explain('train', namespace='team-a')"
    )
