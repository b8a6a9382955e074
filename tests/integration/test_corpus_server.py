"""The corpus in tests/manifests through a real API server with our webhooks, as `kubectl apply` sends it.

Everything is asked once, many at a time, by the fixture `world`; the tests look at what came back.
"""

import contextlib
import http.client
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from _pytest.mark import ParameterSet

from api.features import FeatureGates
from api.keys import MULTIKUEUE, QUEUE_NAME
from cli.rule.explanations import explanations
from dev.cluster import rest
from dev.cluster.cluster import Cluster
from dev.cluster.components import ADMIN
from dev.cluster.spec import ClusterSpec
from kube.model.semantic import semantically_equal
from tests.support.cluster.admission import admission
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import OwnCluster, new_namespace, request, wait_for
from tests.support.corpus.go_crd import worker_copy
from tests.support.corpus.manifests import JSON, Case, Finding, case_id, cases, differences, without_defaults
from tests.support.corpus.rule_examples import IN_PARTS, with_part

NEWEST = {
    "container-always-restarts", "in-place-restart-no-agent", "in-place-restart-no-rights", "pod-features",
    "restart-agent", "restart-agent-in-order", "restart-agent-sidecar", "scheduling-of-the-job-alone",
    "scheduling-of-the-job-ignored", "scheduling-with-groups-of-its-own", "spares-restart-agent",
    "template-job-label-and-annotation",
}  # fmt: skip
"""Cases, and rules with examples, of which an older API server refuses more, or warns of fields that it does not know."""
GOOD, BAD = cases("good"), cases("bad")
UNREADABLE = [case for case in GOOD + BAD if case.first_answer == "api-server"]
"""Those that the API server refuses before it asks a webhook."""
APPLY = "application/apply-patch+yaml"
STRICT = "fieldValidation=Strict"
WORKERS = 8
TOPOLOGIES = (
    "cloud.google.com/gke-nodepool", "example.com/rack", "kubernetes.io/hostname", "rack", "topology.kubernetes.io/zone",
)  # fmt: skip
"""Labels that the corpus places Jobs by; some node has them, else each answer would warn that none has."""


def server_side(chosen: list[Case]) -> list[Case]:
    """Those that can be applied server-side: there the API server refuses every null, which a create drops."""
    return [case for case in chosen if case.named and not case.nulls]


@dataclass(frozen=True)
class Answer:
    """The texts of the API server's Warning headers."""

    status: int
    body: JSON
    warnings: tuple[str, ...]

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        """(field, reason, message) of each cause."""
        causes = (self.body.get("details") or {}).get("causes") or ()
        return [(cause.get("field", ""), cause.get("reason", ""), cause.get("message", "")) for cause in causes]


@dataclass(frozen=True)
class World:
    """Answers by the case's id: to every create or update, and to every later apply of the good ones.

    `examples`: by the rule's id, to its bad example and to its good one. `copies`: to a set that MultiKueue copies, and
    to its copy.
    """

    first: dict[str, Answer] = field(default_factory=dict)
    examples: dict[str, list[Answer]] = field(default_factory=dict)
    server_side: dict[str, list[Answer]] = field(default_factory=dict)
    client_side: dict[str, list[int]] = field(default_factory=dict)
    copies: dict[str, tuple[Answer, Answer]] = field(default_factory=dict)
    kubectl_failures: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def world(own_cluster: OwnCluster) -> World:
    """One API server; the webhooks are served twice, with the gates' defaults and with all of them on."""
    world = World()
    node = {"metadata": {"name": "n", "labels": dict.fromkeys(TOPOLOGIES, "a")}}
    with own_cluster(ClusterSpec(name="corpus", profile="api")) as cluster:
        assert request(cluster, "POST", "/api/v1/nodes", node)[0] == 201
        storage = {"metadata": {"name": "fast"}, "provisioner": "example.com/disks"}
        assert request(cluster, "POST", "/apis/storage.k8s.io/v1/storageclasses", storage)[0] == 201
        for gates in ({}, {"AllAlpha": True}):
            with admission(cluster, FeatureGates(gates)), contextlib.closing(Asker(cluster, world)) as ask:
                ask.wait_for_gates(on=bool(gates))
                asked = [case for case in GOOD + BAD if case.gates == gates]
                if gates:
                    ask.examples()
                ask.everything([case for case in asked if cluster.plan.gang or case.id not in NEWEST])
    return world


class Asker:
    """Sends cases to the cluster and notes the answers; each kind of sending has a namespace of its own."""

    def __init__(self, cluster: Cluster, world: World) -> None:
        self.cluster, self.world = cluster, world
        self.namespace, self.applied, self.by_kubectl, self.copied = (new_namespace(cluster) for _ in range(4))
        accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        for name in ("cache-initializer", "in-place-restart"):
            assert request(cluster, "POST", accounts, {"metadata": {"name": name}})[0] == 201
        self.tls = rest.client_tls(cluster.plan.layout.pki, ADMIN)
        self.own = threading.local()
        self.connections: list[http.client.HTTPSConnection] = []

    def close(self) -> None:
        for connection in self.connections:
            connection.close()

    def wait_for_gates(self, *, on: bool) -> None:
        """A webhook configuration takes a moment to reach the API server's admission chain."""
        probe = next(case for case in GOOD if case.id == "in-place-restart").manifest
        path = jobsets(self.namespace, query="dryRun=All")
        wanted = 201 if on else 422
        wait_for(lambda: request(self.cluster, "POST", path, probe)[0] == wanted, what="the webhooks")

    def everything(self, chosen: list[Case]) -> None:
        good = [case for case in chosen if case in GOOD]
        with ThreadPoolExecutor(WORKERS) as pool:
            by_kubectl = pool.submit(self.apply_by_kubectl, [case for case in good if case.named])
            for case, answer in zip(chosen, pool.map(self.first, chosen), strict=True):
                self.world.first[case.id] = answer
            for case, answers in zip(applied := server_side(good), pool.map(self.apply, applied), strict=True):
                self.world.server_side[case.id] = answers
            self.world.copies.update(zip([case.id for case in good], pool.map(self.copy, good), strict=True))
            by_kubectl.result()

    def examples(self) -> None:
        for name in IN_PARTS:
            row = explanations()[name]
            self.world.examples[name] = [self.example(with_part(row.at, text)) for text in (row.bad, row.good)]

    def example(self, body: JSON) -> Answer:
        """Dry run in the test's namespace, or in that of the system."""
        meta = body["metadata"]
        if meta.get("namespace") != "kube-system":
            meta["namespace"] = self.namespace
        return self.send("POST", jobsets(meta["namespace"], query="dryRun=All"), body)

    def first(self, case: Case) -> Answer:
        """Create it: good ones for good, bad ones as a dry run. An update changes what is created before."""
        query = STRICT if case in GOOD else f"{STRICT}&dryRun=All"
        new = case.manifest
        if case.old is None:
            return self.send("POST", jobsets(self.namespace, query=query), new)
        old = self.send("POST", jobsets(self.namespace, query=STRICT), case.old)
        assert old.status == 201, old.body
        new["metadata"]["resourceVersion"] = old.body["metadata"]["resourceVersion"]
        return self.send("PUT", jobsets(self.namespace, new["metadata"]["name"], query), new)

    def apply(self, case: Case) -> list[Answer]:
        """By server-side apply, twice, as two field managers in turn."""
        body = case.manifest
        name = body["metadata"]["name"]
        paths = [jobsets(self.applied, name, f"{STRICT}&force=true&fieldManager={m}") for m in ("trainer", "other")]
        return [self.send("PATCH", path, body, APPLY) for _ in range(2) for path in paths]

    def copy(self, case: Case) -> tuple[Answer, Answer]:
        """Dry runs: as a set that MultiKueue copies, and what it creates of that in a worker cluster."""
        body = case.manifest
        body["spec"]["managedBy"] = MULTIKUEUE
        body["metadata"]["labels"] = {**(body["metadata"].get("labels") or {}), QUEUE_NAME: "q"}
        path = jobsets(self.copied, query="dryRun=All")
        hub = self.send("POST", path, body)
        return hub, self.send("POST", path, worker_copy(hub.body)) if hub.status == 201 else hub

    def apply_by_kubectl(self, named: list[Case]) -> None:
        """By client-side apply, twice; the generation is noted after each."""
        files = [part for case in named for part in ("-f", str(case.file))]
        for _ in range(2):
            self.kubectl("--namespace", self.by_kubectl, "apply", *files)
            listing = self.send("GET", jobsets(self.by_kubectl)).body["items"]
            found = {item["metadata"]["name"]: item["metadata"]["generation"] for item in listing}
            for case in named:
                generation = found.get(case.manifest["metadata"]["name"], 0)
                self.world.client_side.setdefault(case.id, []).append(generation)

    def kubectl(self, *args: str) -> None:
        command = [self.cluster.kubectl, "--kubeconfig", self.cluster.kubeconfig, *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - the cluster's own kubectl
        if done.returncode:
            self.world.kubectl_failures.append(done.stderr)

    def send(self, method: str, path: str, body: JSON | None = None, content: str = "application/json") -> Answer:
        """On a connection of this thread's own."""
        if not hasattr(self.own, "connection"):
            port = self.cluster.plan.ports["kube-apiserver"]
            self.own.connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=self.tls)
            self.connections.append(self.own.connection)
        headers = {"Content-Type": content, "Accept": "application/json"}
        self.own.connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = self.own.connection.getresponse()
        warnings = response.headers.get_all("Warning") or ()
        texts = tuple(json.loads(text.removeprefix("299 - ")) for text in warnings)
        return Answer(response.status, json.loads(response.read()), texts)


def jobsets(namespace: str, name: str = "", query: str = "") -> str:
    path = JOBSETS.format(namespace)
    return path + (f"/{name}" if name else "") + (f"?{query}" if query else "")


NOT_THERE = ("no node has the label", "no StorageClass local-ssd", "or newer, and the API server is 1.")
"""Warnings about what the cluster does not have: nodes, and what an older version lacks."""


def of_every_version(chosen: list[Case] | list[str]) -> list[ParameterSet]:
    """Cases or rules as parameters; those that only the newest API server judges so are marked."""
    ids = [each if isinstance(each, str) else each.id for each in chosen]
    marks = [[pytest.mark.newest] if each in NEWEST else [] for each in ids]
    return [pytest.param(each, marks=mark) for each, mark in zip(chosen, marks, strict=True)]


def of_the_set(answer: Answer) -> list[str]:
    """Its warnings, without those about what the cluster lacks."""
    return [text for text in answer.warnings if not any(words in text for words in NOT_THERE)]


def about(warning: str, finding: Finding) -> bool:
    """Whether a warning is the one expected; of a long path the middle is left out of the text."""
    place, _, text = warning.partition(": ")
    head, cut, tail = place.partition("...")
    same = finding.path.startswith(head) and finding.path.endswith(tail) if cut else place == finding.path
    return same and all(fragment in text for fragment in finding.contains)


@pytest.mark.parametrize("case", UNREADABLE, ids=case_id)
def test_the_api_server_itself_names_what_it_cannot_read(world, case):
    answer = world.first[case.id]
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    for place in case.unknown:
        assert f'unknown field "{place}"' in answer.body["message"]


@pytest.mark.parametrize("case", of_every_version([case for case in BAD if case not in UNREADABLE]), ids=case_id)
def test_one_answer_names_every_mistake(world, case):
    answer = world.first[case.id]
    assert differences(case.errors, answer.causes) == []
    assert [place for place, _, _ in answer.causes] == [finding.path for finding in case.errors]
    if case.errors:
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert all(f"{place}: {text}" in answer.body["message"] for place, _, text in answer.causes)
    else:
        assert answer.status == 201, answer.body


@pytest.mark.parametrize("case", of_every_version([case for case in GOOD + BAD if case not in UNREADABLE]), ids=case_id)
def test_what_is_questionable_is_warned_about_and_nothing_else(world, case):
    left = of_the_set(world.first[case.id])
    for finding in case.warnings:
        match = next((text for text in left if about(text, finding)), None)
        assert match is not None, (finding, left)
        left.remove(match)
    assert left == []


@pytest.mark.parametrize("name", of_every_version(IN_PARTS))
def test_of_the_examples_of_a_rule_the_bad_one_is_warned_of(world, name):
    bad, good = world.examples[name]
    assert (bad.status, good.status) == (201, 201), (bad.body, good.body)
    assert [text.endswith(f" [{name}]") for text in of_the_set(bad)] == [True], bad.warnings
    assert of_the_set(good) == []


def test_nearly_every_path_is_exact(world, capsys):
    asked = [case for case in BAD if case.id in world.first]
    wanted = [(case.id, finding.path) for case in asked if case.first_answer == "webhook" for finding in case.errors]
    reported = {(case.id, place) for case in asked for place, _, _ in world.first[case.id].causes}
    exact = [pair for pair in wanted if pair in reported]
    with capsys.disabled():
        sys.stdout.write(f"\nexact paths: {len(exact)} of {len(wanted)} = {100 * len(exact) / len(wanted):.1f} %\n")
    assert len(exact) >= 0.95 * len(wanted), set(wanted) - reported


def test_no_answer_leaves_the_place_open(world):
    assert [name for name, answer in world.first.items() if "<nil>" in json.dumps(answer.body)] == []


@pytest.mark.parametrize("case", of_every_version(GOOD), ids=case_id)
def test_a_good_manifest_is_stored_untouched_in_meaning(world, case):
    answer = world.first[case.id]
    assert answer.status == 201, answer.body
    given, stored = case.manifest, answer.body
    assert semantically_equal(without_defaults(stored["spec"], given["spec"], "spec"), given["spec"])
    for key, value in given["metadata"].items():
        assert stored["metadata"][key] == value
    assert stored["metadata"]["generation"] == 1


@pytest.mark.parametrize("case", of_every_version(server_side(GOOD)), ids=case_id)
def test_server_side_apply_by_two_managers_changes_nothing(world, case):
    answers = world.server_side[case.id]
    assert [answer.status for answer in answers] == [201, *[200] * 3], answers[-1].body
    assert {answer.body["metadata"]["generation"] for answer in answers} == {1}


@pytest.mark.parametrize("case", of_every_version([case for case in GOOD if case.named]), ids=case_id)
def test_client_side_apply_again_changes_nothing(world, case):
    assert world.client_side[case.id] == [1, 1]


def test_client_side_apply_is_never_refused(world):
    assert world.kubectl_failures == []


@pytest.mark.parametrize("case", of_every_version(GOOD), ids=case_id)
def test_a_copy_that_multikueue_makes_with_gos_types_is_the_same_set(world, case):
    hub, worker = world.copies[case.id]
    assert (hub.status, worker.status) == (201, 201), (hub.body, worker.body)
    assert {**worker.body["spec"], "managedBy": MULTIKUEUE} == hub.body["spec"]
    assert worker.body["metadata"].get("annotations") == hub.body["metadata"].get("annotations")
