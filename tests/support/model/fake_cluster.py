"""A cluster that answers from a few objects, without a server: what commands read, and how much."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from dev.simulator.selectors import parse
from dev.simulator.storage import JsonItem, Scope
from kube.client import PAGE_SIZE
from kube.errors import from_response
from kube.transport import Request, Response

JSON = dict[str, Any]


class Cluster:
    """Answers by path and query, in pages; `endless` names collections of which there is always another page.

    `logs` are texts by pod and container; `unread` says of a pod why its logs cannot be read. `changes` are the events
    of a watch, as (type, object); when they are over, the watch stays open. `has_namespaces`: every namespace is there;
    else those among the objects. `warning`: what it warns of each patch.
    """

    def __init__(self, *objects: JSON, endless: tuple[str, ...] = ()) -> None:
        self.objects = objects
        self._endless = endless
        self.asked: list[Request] = []
        self.logs: dict[tuple[str, str], str] = {}
        self.unread: dict[str, str] = {}
        self._read: dict[str, asyncio.Event] = {}
        self.changes: list[tuple[str, JSON]] = []
        self.has_namespaces = True
        self.warning = ""
        self._refusals: list[tuple[str, Response]] = []

    def refuse(self, paths: str, message: str = "no right", code: int = 403) -> None:
        """Answers so where the path of a request matches."""
        body = {"kind": "Status", "code": code, "message": message}
        self._refusals.append((paths, Response(code, {}, msgspec.json.encode(body))))

    async def send(self, request: Request) -> Response:
        self.asked.append(request)
        for paths, refusal in self._refusals:
            if re.search(paths, request.path):
                return refusal
        query = dict(request.query)
        plural = request.path.rpartition("/")[2]
        if plural == "log":
            return self._log(request.path.split("/")[-2], query)
        if request.verb in {"get", "patch"}:
            found = [body for body in self.objects if body["metadata"]["name"] == plural]
            if not found and self.has_namespaces and request.path == f"/api/v1/namespaces/{plural}":
                return _answer({"kind": "Namespace", "metadata": {"name": plural}})
            if found and request.verb == "patch" and self.warning:
                return Response(200, {"warning": f'299 - "{self.warning}"'}, msgspec.json.encode(found[0]))
            return _answer(found[0]) if found else Response(404, {}, b'{"kind":"Status","details":{"kind":"x"}}')
        items = [body for body in self.objects if _plural(body["kind"]) == plural and _chosen(body, query)]
        first = int(query.get("continue") or 0)
        endless = plural in self._endless and ("namespaces" not in request.path or plural != "pods")
        more = endless or len(items) > first + PAGE_SIZE
        page = items[:1] * PAGE_SIZE if endless else items[first : first + PAGE_SIZE]
        return _answer(
            {"metadata": {"resourceVersion": "1", "continue": str(first + PAGE_SIZE) if more else ""}, "items": page}
        )

    def _log(self, pod: str, query: dict[str, str]) -> Response:
        if why := self.unread.get(pod):
            return Response(500, {}, msgspec.json.encode({"kind": "Status", "message": why}))
        text = self.logs.get((pod, query["container"]))
        if text is None:
            return Response(404, {}, b'{"kind":"Status","message":"no such pod","details":{"kind":"pods"}}')
        lines = text.splitlines(keepends=True)[-int(query.get("tailLines") or 0) :]
        return Response(200, {}, "".join(lines).encode()[: int(query["limitBytes"])])

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(request)
        plural = request.path.rpartition("/")[2]
        yield self._written(request) if plural == "log" else self._lines(plural)

    async def _lines(self, plural: str) -> AsyncIterator[bytes]:
        """Each change when the first line of the log that it waits for was read."""
        for kind, body in self.changes:
            if _plural(body["kind"]) == plural:
                if after := body.pop("after", ""):
                    await self._read.setdefault(after, asyncio.Event()).wait()
                yield msgspec.json.encode({"type": kind, "object": body})
        await asyncio.Event().wait()

    async def _written(self, request: Request) -> AsyncIterator[bytes]:
        """What a pod has written since the given second, each line a second after the one before."""
        pod, query = request.path.split("/")[-2], dict(request.query)
        text = self.logs.get((pod, query["container"]))
        if why := self.unread.get(pod):
            self._read.setdefault(pod, asyncio.Event()).set()
            raise from_response(500, {}, msgspec.json.encode({"kind": "Status", "message": why}), request.call)
        if text is None:
            raise from_response(404, {}, b'{"kind":"Status","message":"no such pod","code":404}', request.call)
        lines = [f"2026-01-02T03:04:{second:02}.000000000Z {line}" for second, line in enumerate(text.splitlines())]
        for line in [line for line in lines if line >= query.get("sinceTime", "")[:19]][
            -int(query.get("tailLines", 0)) :
        ]:
            for start in range(0, len(line), request.break_after):
                yield line[start : start + request.break_after].encode()
            self._read.setdefault(pod, asyncio.Event()).set()

    async def close(self) -> None:
        """Nothing."""


def _plural(kind: str) -> str:
    return re.sub("ys$", "ies", f"{kind.lower()}s")


def _answer(body: JSON) -> Response:
    return Response(200, {}, msgspec.json.encode(body))


def _chosen(body: JSON, query: dict[str, str]) -> bool:
    """Whether the selectors choose it; of those by fields, only by phase."""
    phases = [term for term in query.get("fieldSelector", "").split(",") if term.startswith("status.phase")]
    scope = Scope(labels=parse(query.get("labelSelector", "")), fields=parse(",".join(phases)))
    return scope.contains(JsonItem(body))
