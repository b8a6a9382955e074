"""The comparison of the manager's rights with what is asked of API servers (`make rights`)."""

import json

import pytest

from tests.support.cluster import rights
from tests.support.cluster.manager import USER
from tests.support.cluster.rights import Right

LISTED_BY_WATCH = {
    right for right in rights.granted() if right.verb == "list" and right._replace(verb="watch") in rights.granted()
}
ALL = rights.granted() - LISTED_BY_WATCH - rights.NOT_ASKED_FOR.keys()


def line(verb, resource, *, user=USER, agent="jobset/v1", decision="allow", **target):
    """A line of an audit log, as far as it is read."""
    return json.dumps(
        {
            "stage": "ResponseComplete",
            "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
            "stageTimestamp": "2026-01-01T00:00:00.100000Z",
            "verb": verb,
            "user": {"username": user},
            "userAgent": agent,
            "objectRef": {"resource": resource, **target},
            "annotations": {"authorization.k8s.io/decision": decision},
        }
    )


def test_no_difference_when_all_that_is_granted_is_asked_for():
    assert rights.differences(ALL) == []


@pytest.mark.parametrize("right", sorted(ALL), ids=str)
def test_a_right_that_nobody_asks_for_is_a_difference(right):
    assert f"granted and never asked for: {right}" in rights.differences(ALL - {right})


def test_a_right_that_is_asked_for_and_not_granted_is_a_difference():
    more = Right("update", "batch", "jobs", "")
    assert rights.differences(ALL | {more}) == ["asked for and not granted: update jobs.batch"]


def test_another_secret_than_the_own_is_a_difference():
    theirs = Right("get", "", "secrets", "theirs")
    assert rights.differences(ALL | {theirs}) == ["asked for and not granted: get secrets theirs"]


def test_to_look_up_any_secret_is_asked_for_where_it_is_permitted(tmp_path):
    log = tmp_path / "audit.log"
    lines = [
        line("get", "secrets", name="theirs"),
        line("get", "secrets", name="jobset-webhook-server-cert"),
        line("get", "secrets", name="another", decision="forbid"),
        line("list", "secrets"),
    ]
    log.write_text("".join(f"{text}\n" for text in lines))
    assert rights.differences(ALL | rights.read(log)) == [
        "asked for and not granted: get secrets another",
        "asked for and not granted: list secrets",
    ]


def test_every_right_that_no_request_shows_is_granted():
    assert rights.NOT_ASKED_FOR.keys() <= rights.granted()


def test_a_log_tells_what_the_manager_asked_for(tmp_path):
    log = tmp_path / "audit.log"
    lines = [
        line("patch", "pods", subresource="status", namespace="a", name="p"),
        line("get", "secrets", name="jobset-webhook-server-cert"),
        line("create", "jobs", apiGroup="batch", decision="forbid"),
        line("delete", "nodes", user="somebody-else"),
        line("delete", "nodes", agent="kubectl/v1.37.1"),
    ]
    log.write_text("".join(f"{text}\n" for text in lines))
    assert rights.read(log) == {
        Right("patch", "", "pods/status", ""),
        Right("get", "", "secrets", "jobset-webhook-server-cert"),
        Right("create", "batch", "jobs", ""),
    }


def test_the_command_compares_what_was_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rights, "REPORT", tmp_path / "build" / "rights.json")
    assert rights.main() == 2
    assert "run `make test` first" in capsys.readouterr().err
    rights.write(ALL)
    assert rights.main() == 0
    rights.write([list(right) for right in ALL - {Right("create", "batch", "jobs", "")}])
    assert rights.main() == 1
    assert "granted and never asked for: create jobs.batch\n" in capsys.readouterr().out
