"""What `jobset explain` says of domains that no Job holds, and that take no leader because of the taints of their nodes."""

from __future__ import annotations

from dataclasses import replace

from diagnose.facts import Holder
from diagnose.nodes import Nodes
from tests.diagnose.test_nodes import CORDON, node, nodes
from tests.support.explain.objects import RACK, explanation_of, walk
from tests.support.explain.stuck_pods import HELD, exclusive_leader


def free(there: Nodes) -> tuple[str, str]:
    """The finding about the second of two racks, the first of which is held, and what to do."""
    given = exclusive_leader(Holder(job="j0", job_uid="u0", node="n0", **HELD))
    _, body = explanation_of(replace(given, node_offers=there))
    [found] = [one for one in walk(body) if one["cause"] == "free"]
    return found["what"], found["remedy"]


def test_cordoned_nodes_of_a_free_domain_are_named():
    held = node("n0", CORDON, labels={RACK: "rack-0"})
    what, fix = free(nodes(held, node("n1", CORDON, labels={RACK: "rack-1"}), node("bare", CORDON)))
    assert what == (
        "1 of 2 racks holds no other Job (rack-1): there it is something else, such as free resources, taints or cordons;"
        " 1 node there could hold it but for taints: cordoned (1)"
    )
    assert fix.startswith("kubectl uncordon n1; the scheduler's reason above counts the nodes")


def test_of_free_domains_without_tainted_nodes_nothing_is_said_of_taints():
    what, fix = free(nodes(node("n0", CORDON, labels={RACK: "rack-0"}), node("n1", labels={RACK: "rack-1"})))
    assert what.endswith("free resources, taints or cordons")
    assert fix.startswith("the scheduler's reason above counts the nodes")
