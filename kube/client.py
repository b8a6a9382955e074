"""The typed verbs of the API: encode, send, decode, raise. Only this module retries requests.

Reads decode into any msgspec type (dict by default). Writes take JSON built by the caller, a patch or raw bytes.
`replace` refuses a struct, since a struct that was read has dropped the fields that it does not know.
"""
# ruff: noqa: A002 -- `type` is the word msgspec uses for what to decode into

import asyncio
import dataclasses
import enum
import re
from collections.abc import AsyncIterator, Callable, Mapping, MutableSequence
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, Unpack

import msgspec
from typing_extensions import TypeVar

from kube.decode import decode
from kube.errors import KubeError, NotFound, TransportError, from_response
from kube.model.versions import Version, parse_version
from kube.options import (
    JSON_FORM,
    LIST_QUERY,
    METADATA_LIST,
    TIMEOUT,
    WRITE_QUERY,
    DeleteOptions,
    ListOptions,
    ReadOptions,
    WriteOptions,
    delete_request,
    query_of,
)
from kube.resources import Resource
from kube.transport import Request, RequestLimits, Response, Transport

T = TypeVar("T", default=dict[str, Any])

JSON_OBJECT: Any = dict
"""Default of every `type` parameter: plain JSON."""

Body = Mapping[str, Any] | list[Any] | msgspec.Struct | msgspec.Raw | bytes

PAGE_SIZE = 500
"""Objects in one page of a list, which take a few MB of memory at most."""

ATTEMPTS = 4
"""The most tries of one request, the first try included."""

MAX_RETRY_AFTER = 10.0
"""Longest Retry-After, in seconds, for which the client waits. For a longer one the request fails."""


class PatchType(enum.Enum):
    """Content type of a patch."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class ListMeta(
    msgspec.Struct, frozen=True, rename={"resource_version": "resourceVersion", "continue_token": "continue"}
):
    """metav1.ListMeta: `continue_token` is "" on the last page."""

    resource_version: str = ""
    continue_token: str = ""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list."""

    metadata: ListMeta
    items: list[T] | None = None


class _DeletionAnswer(msgspec.Struct, frozen=True):
    """The answer to a deletion: the object or a Status, with the fields that tell whether the object is gone."""

    class Meta(msgspec.Struct, frozen=True, rename="camel"):
        deletion_timestamp: str | None = None
        deletion_grace_period_seconds: int | None = None
        finalizers: list[str] = []

    kind: str = ""
    metadata: Meta = Meta()

    @property
    def is_gone(self) -> bool:
        meta = self.metadata
        is_kept = bool(meta.finalizers) or meta.deletion_grace_period_seconds not in {0, None}
        return self.kind == "Status" or meta.deletion_timestamp is None or not is_kept


class _CollectionDeletionAnswer(msgspec.Struct, frozen=True):
    """The answer to the deletion of a collection: the objects as they were before."""

    class Item(msgspec.Struct, frozen=True):
        class Meta(msgspec.Struct, frozen=True):
            uid: str = ""
            finalizers: list[str] | None = None

        metadata: Meta = Meta()

    items: list[Item] | None = None


class _ServedResource(msgspec.Struct, frozen=True):
    name: str


class _ResourceList(msgspec.Struct, frozen=True):
    """metav1.APIResourceList, the fields that are read."""

    resources: list[_ServedResource] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """Verbs over a transport. They raise the errors of `kube.errors`. A client has no state and can be shared.

    `limited` False: ignore the limits of rate and concurrency. `limits` replaces the limits of the transport. `retries`
    False: no retries of requests without an answer. `guard` is called right before a write is sent, and prevents the
    write by raising.
    """

    transport: Transport
    _: KW_ONLY
    limited: bool = True
    limits: RequestLimits | None = None
    retries: bool = True
    guard: Callable[[], None] | None = None

    def check_guard(self) -> None:
        """Raise the error of the guard now, for a caller that is about to report a write as done."""
        if self.guard is not None:
            self.guard()

    def with_guard(self, guard: Callable[[], None]) -> "Client":
        """A copy of the client with a guard of its writes."""
        return dataclasses.replace(self, guard=guard)

    def with_limits(self, limits: RequestLimits) -> "Client":
        """A copy of the client with limits of its own for requests. Streams keep the limits of the transport."""
        return dataclasses.replace(self, limited=True, limits=limits)

    def without_retries(self, transport: Transport | None = None) -> "Client":
        """A copy of the client without retries of unanswered requests; `transport` replaces the client's transport."""
        return dataclasses.replace(self, retries=False, transport=transport or self.transport)

    def without_limits(self) -> "Client":
        """A copy of the client without limits of rate and concurrency, and without retries of unanswered requests.

        Lease renewals use it: they have a short deadline and must not queue behind a burst of requests. Retry-After is
        still obeyed (`MAX_RETRY_AFTER`).
        """
        return dataclasses.replace(self, limited=False, limits=None, retries=False)

    async def get(
        self, resource: Resource, name: str, *, type: type[T] = JSON_OBJECT, **options: Unpack[ReadOptions]
    ) -> T:
        path = resource.path(options.get("namespace"), name, options.get("subresource"))
        timeout = options.get("timeout", TIMEOUT)
        accept = options.get("accept", JSON_FORM)
        request = Request(method="GET", path=path, verb="get", timeout=timeout, accept=accept)
        return decode(type, (await self._call(request)).body)

    async def list(self, resource: Resource, *, type: type[T] = JSON_OBJECT, **options: Unpack[ListOptions]) -> Page[T]:
        """One page of at most `limit` (default 500) objects."""
        page: type[Page[T]] = Page[type]  # type: ignore[valid-type]  # made at run time; its decoder is cached
        return await self.list_page(resource, page, **options)

    async def list_page(self, resource: Resource, page: type[T], **options: Unpack[ListOptions]) -> T:
        """Like `list`, with a page type of the caller."""
        options.setdefault("limit", PAGE_SIZE)
        query = query_of(options, LIST_QUERY)
        path = resource.path(options.get("namespace"))
        timeout = options.get("timeout", 2 * TIMEOUT)
        accept = options.get("accept", JSON_FORM)
        request = Request(method="GET", path=path, verb="list", query=query, timeout=timeout, accept=accept)
        return decode(page, (await self._call(request)).body)

    async def pages(
        self, resource: Resource, *, type: type[T] = JSON_OBJECT, **options: Unpack[ListOptions]
    ) -> AsyncIterator[T]:
        """Every object of a list, page by page."""
        while True:
            page = await self.list(resource, type=type, **options)
            for item in page.items or ():
                yield item
            if not page.metadata.continue_token:
                return
            options["continue_token"] = page.metadata.continue_token

    async def create(
        self, resource: Resource, body: Body, *, type: type[T] = JSON_OBJECT, **options: Unpack[WriteOptions]
    ) -> T:
        return await self._write("POST", "create", resource.path(options.get("namespace")), body, type, options)

    async def replace(
        self, resource: Resource, name: str, body: Body, *, type: type[T] = JSON_OBJECT, **options: Unpack[WriteOptions]
    ) -> T:
        """Replace (PUT) an object that only this program writes. Raises TypeError for a struct."""
        if isinstance(body, msgspec.Struct):
            raise TypeError(f"{resource}: a struct may have dropped fields, patch instead of replacing")
        path = resource.path(options.get("namespace"), name, options.get("subresource"))
        return await self._write("PUT", "update", path, body, type, options)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Body,
        *,
        patch_type: PatchType = PatchType.MERGE,
        type: type[T] = JSON_OBJECT,
        **options: Unpack[WriteOptions],
    ) -> T:
        """Patch an object. `metadata.resourceVersion` in a merge patch makes it conditional (409 if it has changed)."""
        path = resource.path(options.get("namespace"), name, options.get("subresource"))
        return await self._write("PATCH", "patch", path, body, type, options, patch_type.value)

    async def delete(
        self, resource: Resource, name: str, *, type: type[T] = JSON_OBJECT, **options: Unpack[DeleteOptions]
    ) -> T | None:
        """Delete an object. Returns the object if finalizers or a grace period keep it, None if it is gone.

        404 raises `NotFound`.
        """
        path = resource.path(options.get("namespace"), name)
        response = await self._call(delete_request(path, options, ()))
        if decode(_DeletionAnswer, response.body).is_gone:
            return None
        return decode(type, response.body)

    async def delete_collection(
        self, resource: Resource, *, label_selector: str = "", **options: Unpack[DeleteOptions]
    ) -> frozenset[str]:
        """Delete all objects in the namespace that match the selector; "" matches every object.

        Returns the UIDs of the objects that are gone; matching objects with finalizers are still being deleted.
        """
        selectors = query_of({"label_selector": label_selector}, LIST_QUERY)
        request = delete_request(resource.path(options.get("namespace")), options, selectors)
        response = await self._call(dataclasses.replace(request, verb="deletecollection", accept=METADATA_LIST))
        deleted_objects = decode(_CollectionDeletionAnswer, response.body).items or ()
        return frozenset(item.metadata.uid for item in deleted_objects if not item.metadata.finalizers)

    def watch(
        self,
        resource: Resource,
        query: tuple[tuple[str, str], ...],
        *,
        namespace: str | None = None,
        idle: float,
        accept: str = JSON_FORM,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Raw lines of a watch, for `kube.reflector.watch`; `idle` seconds of silence raise TransportError."""
        query = (("watch", "true"), *query)
        path = resource.path(namespace)
        request = Request(method="GET", path=path, verb="watch", query=query, timeout=idle, accept=accept)
        return self.transport.stream(request)

    async def raw(self, path: str, query: tuple[tuple[str, str], ...] = ()) -> bytes:
        """GET of any other path: /version, /readyz, /openapi/v3, the log of a pod."""
        return (await self._call(Request(method="GET", path=path, verb="get", query=query, timeout=TIMEOUT))).body

    def log(
        self, path: str, query: tuple[tuple[str, str], ...], *, idle: float, break_after: int
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Lines of the log of a pod as they are written, without empty lines.

        A line longer than `break_after` bytes comes in pieces. `idle` seconds of silence raise TransportError.
        """
        request = Request(method="GET", path=path, verb="get", query=query, timeout=idle, break_after=break_after)
        return self.transport.stream(request)

    async def serves(self, group: str) -> bool:
        """Whether the API server serves a group, in any version."""
        try:
            await self.raw(f"/apis/{group}")
        except NotFound:
            return False
        return True

    async def served_resources(self, group_version: str) -> frozenset[str]:
        """Plural names of the resources of a `group/version`; empty if the API server does not serve that version."""
        try:
            answer = await self.raw(f"/apis/{group_version}")
        except NotFound:
            return frozenset()
        return frozenset(resource.name for resource in decode(_ResourceList, answer).resources or ())

    async def server_version(self) -> Version | None:
        """The version of Kubernetes; None if the API server does not report it, or does not answer."""
        try:
            return parse_version(await self.raw("/version"))
        except (KubeError, TimeoutError):
            return None

    async def _write(  # noqa: PLR0913, PLR0917 -- the one funnel of four public verbs
        self,
        method: str,
        verb: str,
        path: str,
        body: Body,
        type: type[T],
        options: WriteOptions,
        content_type: str = "application/json",
    ) -> T:
        request = Request(
            method=method,
            path=path,
            verb=verb,
            query=query_of(options, WRITE_QUERY),
            body=body if isinstance(body, bytes) else msgspec.json.encode(body),
            content_type=content_type,
            timeout=options.get("timeout", TIMEOUT),
            accept=options.get("accept", JSON_FORM),
        )
        response = await self._call(request, options.get("warnings"))
        return decode(type, response.body)

    async def _call(self, request: Request, warnings: MutableSequence[str] | None = None) -> Response:
        """Send a request, with retries, and return the answer; raise the error if the answer is a refusal.

        `warnings` gets the warnings of every answer. A request is retried if the server refused it with a Retry-After
        (429, 503), if no connection was made, or if a read got no answer. A write that may have been applied is never
        retried.
        """
        if not self.limited or self.limits is not None:
            request = dataclasses.replace(request, limited=self.limited, limits=self.limits)
        if self.guard is not None and request.method != "GET":
            request = dataclasses.replace(request, guard=self.guard)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                response = await self.transport.send(request)
            except TransportError as error:
                if attempt == ATTEMPTS or (error.sent and request.method != "GET") or not self.retries:
                    raise
                await asyncio.sleep(0.05 * 2**attempt)
                continue
            if warnings is not None:
                warnings += warning_texts(response.headers)
            if response.status < 300:
                return response
            failure = from_response(response.status, response.headers, response.body, request.call)
            pause = failure.retry_after
            if response.status not in {429, 503} or pause is None or pause > MAX_RETRY_AFTER or attempt == ATTEMPTS:
                raise failure
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def warning_texts(headers: Mapping[str, str]) -> list[str]:
    """The texts of Warning headers as the API server sends them (RFC 7234 section 5.5: `299 - "text"`)."""
    return [re.sub(r"\\(.)", r"\1", text) for text in _WARNING.findall(headers.get("warning", ""))]
