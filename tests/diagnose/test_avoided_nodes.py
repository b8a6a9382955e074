"""What `jobset explain` says of nodes that failed a set."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.support.explain.objects import NOW, a_set, at, causes, explanation_of, facts, lease, running
from tests.support.objects.jobsets import rjob


def failed(name: str, minutes: int, failures: int = 2, **more: Any) -> dict[str, Any]:
    last = at(NOW - timedelta(minutes=minutes))
    return {"name": name, "failures": failures, "lastTime": last, "reason": "NodeFailure: it is off", **more}


def of(*nodes: dict[str, Any], wanted: bool = True) -> tuple[str, dict[str, Any]]:
    policy = {"avoidNodes": {"afterFailures": 2}} if wanted else {}
    js = a_set(rjob(), status={"failedNodes": [*nodes]}, failurePolicy={"maxRestarts": 1, **policy})
    return explanation_of(facts(js, [running(js, 0)], lease=lease()))


def test_avoided_nodes_are_named_with_why_and_for_how_long():
    text, body = of(failed("n1", 70), failed("n2", 30, domain="r3", topologyKey="rack"), failed("n3", 10, failures=1))
    assert "1 node is avoided by pods of Jobs that are created now" in text
    assert "node n2 and its domain r3: avoided for 30 min more, failed 2 times; NodeFailure: it is off" in text
    assert "node n3: not avoided, failed 1 time" in text
    assert "n1" not in text
    assert (body["state"], body["level"]) == ("runs", "note")


def test_nothing_is_said_where_nothing_is_avoided():
    assert "avoided-nodes" not in causes(of()[1])
    assert "avoided-nodes" not in causes(of(failed("n1", 70))[1])
    assert "avoided-nodes" not in causes(of(failed("n1", 1), wanted=False)[1])
