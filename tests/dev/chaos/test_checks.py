"""Each check finds its violation in a log made by hand, and nothing in a log without it."""

import json
from dataclasses import replace
from functools import partial

import pytest

from dev.chaos.checks import admission, costs, leaders, outcomes, placement
from dev.chaos.events import MANAGER
from dev.cluster import audit
from dev.cluster.audit import Call

Event = partial(Call, user=MANAGER)
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
UID = "jobset.sigs.k8s.io/jobset-uid"


def lease(holder: str, version: int, sender: str) -> Call:
    answer = {"metadata": {"resourceVersion": str(version)}, "spec": {"holderIdentity": holder}}
    times = {"started": version, "ended": version + 0.5}
    return Event(verb="patch", resource="leases", name=leaders.LEASE, credential=sender, response_body=answer, **times)


def write(
    verb: str, resource: str, version: int, sender: str, *, request_body: dict | None = None, **labels: str
) -> Call:
    metadata = {"name": "js-w-0", "uid": "u", "labels": labels}
    if version:
        metadata["resourceVersion"] = str(version)
    return Event(
        verb=verb,
        resource=resource,
        namespace="ns",
        name="js-w-0",
        credential=sender,
        request_body=request_body or {},
        response_body={"metadata": metadata},
        started=version,
        ended=version + 0.5,
    )


# A leads from 10 to 20, B from 20 on.
TERMS = [lease("a", 10, "A"), lease("a", 15, "A"), lease("b", 20, "B"), lease("b", 30, "B")]


def test_writes_of_each_leader_in_its_own_term_are_no_violation():
    log = [write("patch", "jobs", 25, "B"), *reversed(TERMS), write("patch", "jobs", 12, "A")]
    found = leaders.check(log)  # lines of requests that end together come in any order
    assert (found.violations, found.late_writes, found.term_count) == ([], {}, 2)


def test_a_patch_that_changes_nothing_has_an_older_version_and_is_no_violation():
    unchanged = replace(write("patch", "jobs", 8, "B"), started=25, ended=26)
    assert leaders.check([*TERMS, unchanged]).violations == []


@pytest.mark.parametrize(
    ("version", "sender"), [(22, "A"), (12, "B"), (5, "A")], ids=["after", "before", "no term yet"]
)
def test_a_write_outside_the_senders_term_is_found(version, sender):
    found = leaders.check([*TERMS, write("patch", "jobs", version, sender)])
    assert [violation.rule for violation in found.violations] == [leaders.RULE]
    assert found.late_writes == {"patch jobs stored, no guard": 1}


def test_a_write_after_the_lease_was_given_back_is_found():
    found = leaders.check([lease("a", 10, "A"), lease("", 20, "A"), write("patch", "jobs", 22, "A")])
    assert len(found.violations) == 1


def test_the_guards_of_late_writes_are_named_and_what_was_refused_is_counted():
    version, uid = {"metadata": {"resourceVersion": "19"}}, {"preconditions": {"uid": "u"}}
    refused = Event(verb="create", resource="jobs", credential="A", code=409, started=25, ended=26)
    deleted = Event(verb="delete", resource="jobs", credential="A", request_body=uid, started=25, ended=26)
    late = [
        write("patch", "jobsets/status", 22, "A", request_body=version),
        write("create", "jobs", 23, "A", **{ATTEMPT: "0", UID: "u"}),
        refused,
        deleted,
    ]
    found = leaders.check([*TERMS, *late])
    assert found.violations == []
    assert found.late_writes == {
        "patch jobsets/status stored, it named the version": 1,
        "create jobs stored, its name was free": 1,
        "create jobs refused with 409": 1,
        "delete jobs stored, it named the UID": 1,
    }


def test_a_late_job_of_an_attempt_that_is_over_is_found():
    restarted = status(21, restarts=1)
    late = write("create", "jobs", 23, "A", **{ATTEMPT: "0", UID: "u"})
    assert len(leaders.check([*TERMS, restarted, late]).violations) == 1


@pytest.mark.parametrize(("attempt", "found"), [(0, 0), (1, 1)], ids=["over", "current"])
def test_a_late_deletion_of_many_jobs_is_harmless_if_their_attempt_was_over(attempt, found):
    selector = f"{UID}=u,{ATTEMPT}={attempt},jobset.sigs.k8s.io/job-global-index in (0,1)"
    late = Event(verb="deletecollection", resource="jobs", credential="A", selector=selector, started=25, ended=26)
    assert len(leaders.check([*TERMS, status(21, restarts=1), late]).violations) == found


def test_dry_runs_and_writes_of_others_need_no_lease():
    dry = Event(verb="create", resource="jobs", credential="A", dry_run=True, started=25, ended=26)
    other = Event(verb="patch", resource="pods", user="kwok", started=25, ended=26)
    assert leaders.check([*TERMS, dry, other]).late_writes == {}


def created(expected: dict | None = None) -> Call:
    end = expected or {"terminalState": "Completed", "restarts": 1}
    metadata = {"name": "js", "namespace": "ns", "uid": "u", "annotations": {outcomes.EXPECTED: json.dumps(end)}}
    return Event(verb="create", resource="jobsets", code=201, response_body={"metadata": metadata}, started=1, ended=1)


def status(version: int, **fields) -> Call:
    answer = {"metadata": {**created().response_body["metadata"], "resourceVersion": str(version)}, "status": fields}
    return Event(
        verb="patch", resource="jobsets/status", credential="B", response_body=answer, started=version, ended=version
    )


def rules(*log: Call, left: frozenset[str] = frozenset()) -> list[str]:
    return [violation.rule for violation in outcomes.check(log, left)]


def test_a_set_that_restarts_once_and_completes_is_as_expected():
    log = [status(2, restarts=1), status(3, restarts=1, terminalState="Completed")]
    assert rules(created(), *log) == []
    assert rules(created(), *reversed(log)) == [], "lines of requests that end together come in any order"


def test_a_restart_that_was_lost_or_another_end_is_found():
    assert rules(created(), status(3, terminalState="Completed")) == [outcomes.OTHER_END]
    assert rules(created(), status(2, restarts=1), status(3, restarts=1, terminalState="Failed")) == [
        outcomes.OTHER_END
    ]


def test_a_restart_that_is_counted_twice_is_found_at_once_or_by_the_end():
    assert rules(created(), status(2, restarts=2)) == [outcomes.RESTART_TWICE, outcomes.NO_END]
    two = [status(2, restarts=1), status(3, restarts=2), status(4, restarts=2, terminalState="Completed")]
    assert rules(created(), *two) == [outcomes.OTHER_END]


def test_restarts_that_go_back_are_found_in_the_order_of_versions():
    log = [status(3, restarts=0), status(2, restarts=1), status(4, restarts=1, terminalState="Completed")]
    assert rules(created(), *log) == [outcomes.RESTART_TWICE]


def test_a_set_that_does_not_end_is_found_unless_its_namespace_went_with_it():
    dropped = Event(verb="delete", resource="namespaces", name="ns", user="admin", started=5, ended=5)
    assert rules(created()) == [outcomes.NO_END]
    assert rules(created(), dropped) == []
    assert rules(created(), replace(dropped, ended=0)) == [outcomes.NO_END], "that was an earlier namespace"
    assert rules(created(), dropped, left=frozenset({"u"})) == [outcomes.NO_END], "it is still there"


def test_a_write_without_an_answer_counts_for_a_set_that_is_gone():
    asked = {"metadata": {"uid": "u"}, "status": {"terminalState": "Completed"}}
    broken = replace(status(3), code=504, request_body=asked, response_body={})
    log = [created(), status(2, restarts=1), broken]
    assert rules(*log) == []
    assert rules(*log, left=frozenset({"u"})) == [outcomes.NO_END], "it is there, and its status has no end"
    assert rules(created(), broken) == [outcomes.OTHER_END], "it was never restarted"
    assert rules(*log, status(4, restarts=1, terminalState="Failed")) == [outcomes.OTHER_END], "what is stored counts"
    assert rules(broken) == []


def test_a_job_that_is_created_twice_in_one_attempt_is_found():
    first = write("create", "jobs", 2, "A", **{ATTEMPT: "0", UID: "u"})
    again = write("create", "jobs", 3, "B", **{ATTEMPT: "0", UID: "u"})
    restarted = write("create", "jobs", 4, "B", **{ATTEMPT: "1", UID: "u"})
    assert rules(first, restarted) == []
    assert rules(first, again) == [outcomes.JOB_TWICE]


def review(started: float, message: str = 'failed calling webhook "mjobset.kb.io": EOF') -> Call:
    return Event(
        verb="create", resource="jobsets", user="admin", code=500, message=message, started=started, ended=started + 1
    )


def test_an_admission_that_fails_while_a_replica_lives_is_found():
    assert len(admission.check([review(10)], excused_windows=[])) == 1
    assert len(admission.check([review(10)], excused_windows=[(12, 13), (1, 9)])) == 1


def test_failures_while_nobody_could_answer_and_refusals_are_no_violation():
    assert admission.check([review(10)], excused_windows=[(9, 10.5)]) == []
    assert admission.check([review(10)], excused_windows=[(10.5, 12)]) == [], "it was on its way when that began"
    assert admission.check([review(10, "the JobSet is invalid")], excused_windows=[]) == []


def exclusive(job: str, node: str | None, phase: str = "Running") -> dict:
    metadata = {
        "namespace": "ns",
        "labels": {"job-name": job},
        "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"},
    }
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": {"phase": phase}}


DOMAINS = {"n0": "rack-0", "n1": "rack-0", "n2": "rack-1"}


def test_two_jobs_in_one_domain_are_found_once():
    snapshots = [placement.snapshot_of(at, [exclusive("a", "n0"), exclusive("b", "n1")]) for at in (1.0, 2.0)]
    [violation] = placement.check(snapshots, DOMAINS)
    assert (violation.rule, violation.subject, violation.at) == (placement.RULE, "rack-0", 1.0)


def test_pods_of_one_job_ended_pods_and_pods_without_a_node_share_with_nobody():
    pods = [exclusive("a", "n0"), exclusive("a", "n1"), exclusive("b", "n1", "Failed"), exclusive("c", None)]
    assert placement.check([placement.snapshot_of(1.0, [*pods, exclusive("d", "n2")])], DOMAINS) == []


def asked(number: int, every: float) -> list[Call]:
    return [Event(verb="create", resource="jobs", namespace="stuck", started=i * every) for i in range(number)]


def test_a_stuck_set_that_asks_too_often_is_found():
    rate, found = costs.check_requests(asked(400, 0.1), "stuck")
    assert rate > 9
    assert [violation.rule for violation in found] == [costs.BUSY]
    assert costs.check_requests(asked(200, 0.5), "stuck")[1] == []
    assert costs.check_requests(asked(200, 0.1), "other") == (0.0, [])


@pytest.mark.parametrize(("end", "found"), [(100.0, 0), (109.0, 0), (115.0, 1)])
def test_memory_that_grows_after_a_quarter_is_found(end, found):
    samples = [(float(at), 100.0 if at < 600 else end) for at in range(0, 1200, 5)]
    figures, violations = costs.check_memory({"replica-0-1": samples})
    assert figures == {"replica-0-1": [100.0, end]}
    assert len(violations) == found


def test_memory_of_a_short_life_is_not_compared():
    assert costs.check_memory({"replica-0-1": [(0.0, 50.0), (300.0, 100.0)], "replica-0-2": []}) == ({}, [])


def test_lines_of_the_audit_log_are_read(tmp_path):
    line = {
        "stage": "ResponseComplete",
        "verb": "create",
        "requestURI": "/apis/batch/v1/namespaces/ns/jobs?dryRun=All&labelSelector=a%3Db,c+in+(0,1)",
        "user": {"username": "u", "extra": {"authentication.kubernetes.io/credential-id": ["X509SHA256=00"]}},
        "objectRef": {"resource": "jobs", "subresource": "status", "namespace": "ns", "name": "j"},
        "responseStatus": {"code": 500, "message": "no"},
        "requestReceivedTimestamp": "2026-01-01T00:00:00.500000Z",
        "stageTimestamp": "2026-01-01T00:00:01.000000Z",
        "requestObject": [{"op": "add"}],
        "responseObject": {"metadata": {"resourceVersion": "7"}},
    }
    other = {**line, "stage": "ResponseStarted"}
    text = b"".join(json.dumps(one).encode() + b"\n" for one in (other, line))
    log = tmp_path / "audit.log"
    log.write_bytes(text + b'{"stage": "Resp')
    [event] = audit.calls(log)
    assert (event.verb, event.resource, event.namespace, event.name) == ("create", "jobs/status", "ns", "j")
    assert (event.credential, event.code, event.message, event.dry_run) == ("X509SHA256=00", 500, "no", True)
    assert event.selector == "a=b,c in (0,1)"
    assert (event.request_body, event.version, event.is_stored) == ({}, 7, False)
    assert event.ended - event.started == 0.5
    for start in range(len(text) + 1):
        lines = [line for line in (json.dumps(other), json.dumps(line)) if text.index(line.encode()) >= start]
        assert len(list(audit.calls(log, start))) == sum("Complete" in line for line in lines), start
