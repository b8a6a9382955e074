"""Nodes that failed a set: how they are counted, which pods keep away from them, and when they are dropped."""

from dataclasses import replace

import pytest

from controllers.planning.actions import DeletePod, PatchJob
from controllers.planning.observed import Ended, FailedPod, PendingPod
from kube.model.meta import MAX_INT32
from tests.controllers.test_node_failure import NodeWorld, on_failed_node
from tests.support.model.lives import at, settled_later
from tests.support.model.start_checks import StartChecks
from tests.support.objects.stored_sets import jobset, rjob

GATES = {"JobSetNodeFailure": True, "JobSetAvoidNodes": True}
NO_NODE = "Unschedulable: 0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector"


class AvoidingWorld(NodeWorld, StartChecks):
    """A world with pods that find no node: by the name of their Job, in seconds since when."""

    def __init__(self, js, **gates):
        super().__init__(js, **gates)
        self.nodeless: dict[str, int] = {}

    def waiting(self) -> dict[str, PendingPod]:
        pods = {name: PendingPod(f"{name}-0", "", at(second), NO_NODE) for name, second in self.nodeless.items()}
        return {name: replace(pod, nodeless=pod) for name, pod in pods.items()}

    def failed_nodes(self) -> list[tuple[str, int]]:
        return [(node.name, node.failures) for node in self.status.failed_nodes]

    def terms(self, job: str = "js-workers-1") -> list[dict]:
        spec = self.jobs[job]["spec"]["template"]["spec"]
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        return spec.get("affinity", {}).get("nodeAffinity", {}).get(required, {}).get("nodeSelectorTerms", [])

    def avoided(self, job: str = "js-workers-1") -> list[str]:
        [term] = self.terms(job) or [{}]
        return [value for field in term.get("matchFields", []) for value in field["values"]]

    def restart(self) -> None:
        """Jobs of the last attempt are gone, the next ones run."""
        self.settle()
        self.pods_on_failed_nodes = []
        self.collect()
        self.start_jobs()

    def lose(self, node: str, job: str = "js-workers-1", **others) -> None:
        """A node fails the pod of a Job, and the set goes on without it."""
        on_failed_node(self, job, node=node, **others)
        self.seconds += 30
        self.restart()


def running(*rjobs: dict, gates: dict[str, bool] = GATES, annotations=None, policy=(), **wanted) -> AvoidingWorld:
    """A set of two Jobs that run from second 0."""
    policy = {"maxRestarts": 99, "nodeFailure": {"afterSeconds": 30}, "avoidNodes": wanted, **dict(policy)}
    rjobs = rjobs or (rjob("workers", 2),)
    world = AvoidingWorld(jobset(*rjobs, failurePolicy=policy, annotations=annotations), **gates)
    world.start_jobs()
    return world


def said(world: AvoidingWorld, reason: str) -> list[str]:
    return [event.note for event in world.events if event.reason == reason]


class TestWhatFailsANode:
    def test_a_node_failure_does_and_the_next_pods_keep_away(self):
        world = running()
        assert world.terms() == []
        world.lose("n1")
        assert world.failed_nodes() == [("n1", 1)]
        [field] = world.terms()[0]["matchFields"]
        assert field == {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
        assert world.avoided("js-workers-0") == ["n1"]
        [note] = said(world, "AvoidsNode")
        assert note.startswith(
            "pods of Jobs that are created from now on keep away from node n1: NodeFailure: pod js-w"
        )

    @pytest.mark.parametrize(
        ("pod", "why"),
        [
            (FailedPod("p", "n7", (Ended("main", 42),)), "container main of pod p ended with exit code 42"),
            (FailedPod("p", "n7", (Ended("main", 1),)), ""),
            (FailedPod("p", "n7", (Ended("main", 42),), deleting=True), ""),
            (FailedPod("p", "", (Ended("main", 42),)), ""),
            (
                FailedPod("p", "n7", reasons=("UnexpectedAdmissionError",)),
                "failed with reason UnexpectedAdmissionError",
            ),
            (FailedPod("p", "n7", reasons=("OOMKilled",)), ""),
        ],
    )
    def test_so_do_pods_by_exit_code_and_reason(self, pod, why):
        codes = {"operator": "In", "values": [42]}
        world = running(policy={"nodeFailure": None}, onExitCodes=codes, onPodReasons=["UnexpectedAdmissionError"])
        world.failed_pods["js-workers-1"] = (pod,)
        world.fail("js-workers-1")
        world.restart()
        assert world.status.restarts == 1
        assert [node.reason.endswith(why) for node in world.status.failed_nodes] == [True] * bool(why)
        assert world.avoided() == ["n7"] * bool(why)

    def test_so_do_nodes_that_restart(self):
        world = running(policy={"nodeFailure": {"afterSeconds": 30}})
        world.failed_pods["js-workers-1"] = (FailedPod("p", "n7", (Ended("main", 255),), reasons=("Unknown",)),)
        world.fail("js-workers-1")
        world.restart()
        [node] = world.status.failed_nodes
        assert (node.name, node.reason) == ("n7", "NodeFailure: pod p was on node n7, which restarted")

    def test_a_set_that_fails_remembers_nothing(self):
        world = running(policy={"maxRestarts": 0})
        on_failed_node(world)
        settled_later(world, 30)
        assert (world.status.terminal_state, world.failed_nodes()) == ("Failed", [])

    def test_a_job_that_is_restarted_alone_keeps_away_by_itself(self):
        nodes = {"afterSeconds": 30, "action": "RestartJob"}
        world = running(policy={"nodeFailure": nodes}, gates=GATES | {"RestartJob": True})
        world.lose("n1")
        assert (world.avoided("js-workers-0"), world.avoided("js-workers-1")) == ([], ["n1"])

    def test_without_the_gate_nothing_happens_but_a_warning(self):
        world = running(gates={"JobSetNodeFailure": True})
        world.lose("n1")
        assert (world.status.restarts, world.failed_nodes(), world.terms()) == (1, [], [])
        [note] = {event.note for event in world.warnings if event.reason == "FeatureGateDisabled"}
        assert "JobSetAvoidNodes=true" in note

    def test_a_set_without_the_field_is_created_as_before(self):
        world = running(policy={"avoidNodes": None})
        world.lose("n1")
        assert (world.status.restarts, world.failed_nodes(), world.terms()) == (1, [], [])
        assert "jobset.sigs.k8s.io/avoided-nodes" not in world.jobs["js-workers-1"]["metadata"]["annotations"]


class TestWhichNodesAreAvoided:
    def test_only_those_that_failed_often_enough(self):
        world = running(afterFailures=2)
        world.lose("n1")
        assert (world.avoided(), world.failed_nodes()) == ([], [("n1", 1)])
        assert said(world, "AvoidsNode") == []
        world.lose("n1")
        assert (world.avoided(), world.failed_nodes()) == (["n1"], [("n1", 2)])
        assert len(said(world, "AvoidsNode")) == 1

    def test_the_words_about_a_failure_are_bounded(self):
        world = running()
        world.lose("n1", taint="example.com/" + "x" * 300)
        assert len(world.status.failed_nodes[0].reason.encode()) == 256


RACK = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}


class TestExclusivePlacement:
    @pytest.mark.parametrize(
        ("scope", "domain", "labels"),
        [
            ("Domain", "r3", [{"key": "rack", "operator": "NotIn", "values": ["r3"]}]),
            ("Domain", "", None),
            ("Node", "r3", None),
        ],
    )
    def test_the_domain_of_the_job_is_avoided_if_asked_for_and_known(self, scope, domain, labels):
        world = running(annotations=RACK, scope=scope)
        world.lose("n1", topology="rack", domain=domain)
        assert world.avoided() == ["n1"]
        assert world.terms()[0].get("matchExpressions") == labels
        [node] = world.status.failed_nodes
        assert (node.topology_key, node.domain) == (("rack", "r3") if labels else ("", ""))


class TestRestartInPlace:
    """A pod that is replaced fails its node, too: if its Job has to move later, it keeps away from there."""

    GATES = {**GATES, "InPlaceRestart": True, "RestartJob": True}

    def lost(self, *pods: tuple[str, str], gates: dict[str, bool] = GATES) -> AvoidingWorld:
        """The world in which these Jobs replace pods on these nodes; nothing is done yet."""
        policy = {
            "restartStrategy": "InPlaceRestart",
            "nodeFailure": {"afterSeconds": 30, "forceDeletePods": True},
            "rules": [{"name": "r", "action": "RestartJob", "onJobFailureReasons": ["BackoffLimitExceeded"]}],
        }
        workers = rjob("workers", 2, parallelism=1, completions=1, backoffLimit=MAX_INT32)
        world = running(workers, gates=gates, annotations=RACK, policy=policy, scope="Domain")
        for job, node in pods:
            on_failed_node(world, job, node=node, topology="rack", domain="r3")
        world.seconds += 30
        return world

    def test_nodes_count_once_however_many_pods_and_plans_there_are(self):
        world = self.lost(("js-workers-0", "n1"), ("js-workers-1", "n1"))
        left = list(world.pods_on_failed_nodes)
        for _ in range(2):
            world.settle()
            assert (world.pods_on_failed_nodes, world.failed_nodes()) == ([], [("n1", 1)])
            # The watch has not seen yet that they are gone.
            world.pods_on_failed_nodes += left
            world.seconds += 1
        assert len(said(world, "AvoidsNode")) == 1

    def test_it_is_stored_before_the_pods_are_gone(self):
        plan = self.lost(("js-workers-1", "n1")).plan()
        assert (plan.status_first, [node.name for node in plan.status.failed_nodes]) == (True, ["n1"])

    def test_without_the_gate_the_pods_are_deleted_as_before(self):
        world = self.lost(("js-workers-1", "n1"), gates={**self.GATES, "JobSetAvoidNodes": False})
        plan = world.plan()
        assert (plan.status_first, [type(action) for action in plan.actions]) == (True, [DeletePod, PatchJob])


class TestWhenNothingFits:
    def stuck(self, *nodes: str, **wanted) -> AvoidingWorld:
        """A set that avoids these nodes. The pod of its second Job finds no node from now on."""
        world = running(**wanted)
        for node in nodes:
            world.lose(node)
        self.no_node(world)
        return world

    def no_node(self, world: AvoidingWorld, job: str = "js-workers-1", **status) -> None:
        self.status(world, job, active=1, ready=0, **status)
        world.nodeless[job] = world.seconds

    def status(self, world: AvoidingWorld, job: str, **status) -> None:
        world.jobs[job]["status"] |= status

    def test_the_node_that_failed_first_is_dropped_and_the_job_created_again(self):
        world = self.stuck("n1", "n2")
        settled_later(world, 119)
        assert world.avoided() == ["n1", "n2"]
        first = world.jobs["js-workers-0"]["metadata"]["uid"]
        settled_later(world, 1)
        assert world.live() == ["js-workers-0"]
        del world.nodeless["js-workers-1"]
        world.collect()
        world.settle()
        assert world.avoided() == ["n2"]
        assert (world.failed_nodes(), world.status.restarts) == ([("n2", 1)], 2)
        assert world.jobs["js-workers-0"]["metadata"]["uid"] == first, "a Job whose pods have nodes goes on"
        [note] = said(world, "AvoidedNodeDropped")
        assert note == (
            f"node n1 is not avoided any more: pod js-workers-1-0 of Job js-workers-1 finds no node: {NO_NODE}"
        )

    def test_a_crash_between_status_and_deletion_drops_no_second_node(self):
        world = self.stuck("n1", "n2")
        world.seconds += 120
        dropped = world.plan()
        assert dropped.status_first, "else a crash leaves Jobs that are created again with the same terms"
        world._store(dropped.status)
        world.next_start_check = ""  # the next process knows of no look
        world.settle()
        assert (world.live(), world.failed_nodes()) == (["js-workers-0"], [("n2", 1)])

    def test_all_jobs_without_a_node_are_created_again_at_once(self):
        world = self.stuck("n1", "n2")
        self.no_node(world, "js-workers-0")
        settled_later(world, 120)
        assert (world.live(), world.failed_nodes()) == ([], [("n2", 1)])

    def test_a_job_of_which_pods_have_succeeded_is_left_alone(self):
        world = self.stuck("n1")
        self.status(world, "js-workers-1", succeeded=1)
        assert settled_later(world, 200).live() == ["js-workers-0", "js-workers-1"]

    def test_nothing_is_looked_at_while_all_is_ready(self):
        world = running()
        world.lose("n1")
        settled_later(world, 500)
        assert world.checks == 0

    def test_looks_are_few(self):
        world = self.stuck("n1", dropAfterSeconds=300)
        world.nodeless.clear()
        for _ in range(300):
            settled_later(world, 1)
        assert 0 < world.checks <= 1
