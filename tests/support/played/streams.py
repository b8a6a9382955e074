"""Plays the requests that real clients have sent (tests/streams/*.json) against the API server of a test."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.streams.normalise import NAMESPACE, UID, VERSION
from tests.support.cluster.client_calls import path
from tests.support.cluster.jobs import Sets
from tests.support.cluster.requests import request

JSON = dict[str, Any]

USER = "kubernetes-admin"
"""The client that stands for the user: creates the JobSet, where it is not Trainer who does."""
USERS = {
    "kueue": "system:serviceaccount:kueue-system:kueue-controller-manager",
    "trainer": "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager",
}
"""The users of controllers, as the API server knows them."""
STREAMS = Path(__file__).parents[2] / "streams"
METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
REPEATS = 3
"""A request that a client has sent more often in a row is sent so often."""


class Stream:
    """One recorded life, played in the namespace of `sets`."""

    def __init__(self, sets: Sets, life: str) -> None:
        self.sets = sets
        self.phases: dict[str, JSON] = json.loads((STREAMS / f"{life}.json").read_text(encoding="utf-8"))["phases"]
        self._owner: str | None = None

    def entries(self, phase: str, client: str) -> list[JSON]:
        """What was recorded of a client in a phase."""
        return [entry for entry in self.phases[phase]["requests"] if entry["request"]["client"] == client]

    def play(self, phase: str) -> list[JSON]:
        """Send what was sent in a phase, by all clients, in its order; gives the objects that were answered."""
        entries = self.phases[phase]["requests"]
        return [self.send(entry) for entry in entries for _ in range(min(entry["times"], REPEATS))]

    def send(self, entry: JSON) -> JSON:
        """Send a request, again where somebody was faster, as clients do; it has to be accepted as it was."""
        sent = entry["request"]
        name = sent["name"] if sent["verb"] != "create" else ""
        where = "/".join(filter(None, [path(self.sets, name), sent.get("subresource")]))
        code = 409
        while code == 409:
            body = self._filled(sent["body"], sent["name"])
            if entry.get("suspendedByWebhook"):
                body["spec"]["suspend"] = True
            method, content = METHODS[sent["verb"]], sent.get("contentType", "application/json")
            where_and_how = f"{where}?{urlencode(sent['query'])}"
            user = USERS.get(sent["client"], "")
            code, answer = request(self.sets.cluster, method, where_and_how, body, content, user)
        assert code in {entry["code"], 200}, (code, answer.get("message"), sent)
        return answer

    def _filled(self, node: Any, name: str) -> Any:
        """With what the variables stand for here."""
        if isinstance(node, dict):
            if "ownerReferences" in node:
                node = {**node, "ownerReferences": [{**self._stand_in(), **_flags(o)} for o in node["ownerReferences"]]}
            return {key: self._filled(member, name) for key, member in node.items()}
        if isinstance(node, list):
            return [self._filled(member, name) for member in node]
        if node == NAMESPACE:
            return self.sets.namespace
        if node in {VERSION, UID}:
            stored = self.sets.get(name)
            return stored["metadata"]["resourceVersion" if node == VERSION else "uid"]
        return node

    def _stand_in(self) -> JSON:
        """An owner instead of the TrainJob: the API server of the tests knows none, and one that is not there is
        garbage-collected with all it owns."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
        if self._owner is None:
            where = f"/api/v1/namespaces/{self.sets.namespace}/configmaps"
            self._owner = request(self.sets.cluster, "POST", where, body)[1]["metadata"]["uid"]
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": self._owner}


def _flags(owner: JSON) -> JSON:
    return {key: owner[key] for key in ("controller", "blockOwnerDeletion") if key in owner}
