"""An API server that answers admission's questions by a script.

What the real one says is tested in tests/integration/dry_run/.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from api.features import FeatureGates
from kube.client import Client
from kube.model.field import FieldError
from kube.transport import Request, Response
from tests.support.objects.jobsets import JSON, stored
from webhooks.jobset.answers import MAX_WARNING_LENGTH, RULE_SUFFIX, warning_texts
from webhooks.jobset.cluster.checks import ClusterChecks

GATES = FeatureGates()
UID = "5d3f6f0e-1111-4222-8333-944444444444"
DATA = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
MOUNT = {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}


@dataclass
class Script:
    """A transport that answers by plural and verb: `create jobs`.

    What is not scripted is taken, or not found; of a list there is one item, of quotas none.
    """

    answers: dict[str, Callable[[Request], Response] | Exception] = field(default_factory=dict)
    seconds: float = 0.0
    requests: list[Request] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.in_flight -= 1
        answer = self.answers.get(f"{request.verb} {plural(request)}")
        if isinstance(answer, Exception):
            raise answer
        if answer is not None:
            return answer(request)
        if plural(request) == "resourcequotas":
            return Response(200, {}, b'{"metadata": {}, "items": []}')
        if request.verb == "list":
            return Response(200, {}, b'{"metadata": {}, "items": [{}]}')
        return status(404, "NotFound", "not found") if request.verb == "get" else Response(201, {}, b"{}")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        raise AssertionError("nothing is watched")
        yield

    async def close(self) -> None:
        """Nothing to close."""

    def asked(self) -> list[str]:
        """What was asked, but for the quotas of the namespace: they are read for every new set."""
        asked = (f"{request.verb} {plural(request)}" for request in self.requests)
        return sorted(text for text in asked if text != "list resourcequotas")

    def bodies(self, kind: str) -> list[JSON]:
        found = (msgspec.json.decode(request.body) for request in self.requests if request.body)
        return [body for body in found if body["kind"] == kind]


def plural(request: Request) -> str:
    parts = request.path.split("/")
    return parts[parts.index("namespaces") + 2] if "namespaces" in parts else parts[-1]


def status(code: int, reason: str, message: str, retry_after: int | None = None, **details: Any) -> Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return Response(code, {} if retry_after is None else {"retry-after": str(retry_after)}, msgspec.json.encode(body))


def refusal(*causes: tuple[str, str, str], kind: str = "Job") -> Callable[[Request], Response]:
    """422 of the API server's own validation; causes are field, reason, message."""

    def answer(request: Request) -> Response:
        name = msgspec.json.decode(request.body)["metadata"]["name"]
        group = ".batch" if kind == "Job" else ""
        listed = [{"field": f, "reason": reason, "message": message} for f, reason, message in causes]
        return status(422, "Invalid", f'{kind}{group} "{name}" is invalid: [...]', name=name, kind=kind, causes=listed)

    return answer


def found_object(**meta: Any) -> Callable[[Request], Response]:
    return lambda request: Response(200, {}, msgspec.json.encode({"metadata": meta, "spec": meta.pop("spec", {})}))


def owned_by(kind: str, name: str, uid: str = "u") -> JSON:
    return {"apiVersion": "x/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def claims(name: str = "data", retain: bool = True, **spec: Any) -> JSON:
    policy = {"templates": [{"metadata": {"name": name}, "spec": {**DATA, **spec}}]}
    return {"volumeClaimPolicies": [{**policy, "retentionPolicy": {"whenDeleted": "Retain" if retain else "Delete"}}]}


def checks(script: Script, **options: Any) -> ClusterChecks:
    return ClusterChecks(Client(script), **options)


async def create(
    script: Script, js: JSON, known: tuple[FieldError, ...] = (), *, namespace: str = "default", **options: Any
) -> list[FieldError]:
    return await checks(script, **options).findings_about_new(stored(js), known, GATES, namespace=namespace)


def errors(found: list[FieldError]) -> list[str]:
    return [str(error) for error in found if not error.is_warning]


def warnings(found: list[FieldError]) -> list[str]:
    """Texts of warnings without the ids of their rules."""
    texts = warning_texts([error for error in found if error.is_warning])
    assert all(len(text) <= MAX_WARNING_LENGTH and not text.endswith("...") for text in texts)
    return [RULE_SUFFIX.sub("", text) for text in texts]
