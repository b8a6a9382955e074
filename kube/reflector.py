"""Runs a watch: sends the requests that `kube.watcher` decides on, decodes the answers, and passes them back.

An object that cannot be decoded does not end the watch (see `read_object`).
"""

import asyncio
import functools
import logging
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, Literal, TypedDict, TypeVar

import msgspec

from kube.client import PAGE_SIZE, Client, ListMeta
from kube.decode import decode
from kube.errors import KubeError, TransportError, UnreadableAnswerError, from_status, parse_status
from kube.interruptions import CLUSTER_ROLES, Interruptions
from kube.model.jsontree import rephrase_for_json
from kube.model.meta import Identity
from kube.options import JSON_FORM, METADATA, METADATA_LIST
from kube.resources import Resource
from kube.store import DroppedObject, Unreadable
from kube.watcher import Bookmark, Ended, Event, Failed, Input, Listed, Observed, Phase, State, delay, start, step

log = logging.getLogger(__name__)

T = TypeVar("T")

INITIAL_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark after the last object of a streaming list."""


class WatchOptions(TypedDict, total=False):
    """The optional fields of `Target`."""

    namespace: str | None
    label_selector: str
    field_selector: str
    transform: Callable[[Any], Any] | None
    metadata_only: bool
    streaming: bool
    idle: float
    lifetime: float
    page: int
    remedy: str


@dataclass(frozen=True, slots=True)
class Target:
    """The objects to watch, and how to read them.

    `transform` gets every decoded object, and returns the object to keep, or None if it is not wanted. With
    `metadata_only` only `metadata` is requested. After `idle` seconds of silence a connection counts as dead (bookmarks
    come about once a minute). `lifetime`: seconds of one watch, which a random part extends by up to a quarter. `page`:
    objects in one page of a list that is not streamed. `remedy`: what to do if the right to watch is missing.
    """

    resource: Resource
    type: Any
    _: KW_ONLY
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    transform: Callable[[Any], Any] | None = None
    metadata_only: bool = False
    streaming: bool = True
    idle: float = 150.0
    lifetime: float = 480.0
    page: int = PAGE_SIZE
    remedy: str = CLUSTER_ROLES

    def selectors(self) -> tuple[tuple[str, str], ...]:
        pairs = (("labelSelector", self.label_selector), ("fieldSelector", self.field_selector))
        return tuple(pair for pair in pairs if pair[1])


async def watch(
    client: Client,
    target: Target,
    sink: Callable[[Event], None],
    *,
    on_error: Callable[[KubeError], None] | None = None,
    on_end: Callable[[], None] = lambda: None,
) -> None:
    """Run the state machine forever, passing every event to `sink`. Ends only by cancellation or an error of `sink`.

    `on_error` gets the error of each failure; `on_end` is called when the watch works again.
    """
    state = start(streaming=target.streaming)
    selector = ", ".join(text for _, text in target.selectors())
    clock = asyncio.get_running_loop().time
    interruptions = Interruptions(
        str(target.resource), log, clock, selector=selector, remedy=target.remedy, on_end=on_end
    )
    while True:
        await asyncio.sleep(delay(state, random.random()))  # noqa: S311 - keeps clients apart, protects nothing
        async with aclosing(_perform(client, target, state, interruptions.on_open)) as inputs:
            async for item in inputs:
                match item:
                    case Failed(error):
                        interruptions.on_failure(error)
                        if on_error is not None:
                            on_error(error)
                    case Listed():
                        interruptions.on_list()
                    case Observed() | Bookmark():
                        interruptions.end()
                state, events = step(state, item)
                for event in events:
                    sink(event)


async def _perform(client: Client, target: Target, state: State, on_open: Callable[[], None]) -> AsyncGenerator[Input]:
    """Send the request that `state` asks for, and yield its inputs: a page, a stream of events, or a failure.

    `on_open` is called when the API server has accepted a watch.
    """
    try:
        if state.phase is Phase.LIST:
            yield await _list(client, target, state.continue_token)
            return
        query = _watch_query(target, state)
        accept = METADATA if target.metadata_only else JSON_FORM
        stream = client.watch(target.resource, query, namespace=target.namespace, idle=target.idle, accept=accept)
        async with stream as lines:
            on_open()
            async for line in lines:
                item = _read_line(line, target)
                yield item
                if isinstance(item, Failed):
                    return
        yield Ended()
    except KubeError as error:
        yield Failed(error)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        yield Failed(
            TransportError(
                f"{target.resource}: an answer that is not what the API promises: {rephrase_for_json(error)}"
            )
        )


def _watch_query(target: Target, state: State) -> tuple[tuple[str, str], ...]:
    seconds = random.uniform(target.lifetime, 1.25 * target.lifetime)  # noqa: S311 - spreads watches, protects nothing
    query = (*target.selectors(), ("allowWatchBookmarks", "true"), ("timeoutSeconds", str(int(seconds))))
    if state.phase is Phase.INITIAL:
        return (*query, ("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))
    return (*query, ("resourceVersion", state.resource_version))


class _RawPage(msgspec.Struct, frozen=True):
    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


async def _list(client: Client, target: Target, continue_token: str) -> Listed:
    page = await client.list_page(
        target.resource,
        _RawPage,
        namespace=target.namespace,
        label_selector=target.label_selector,
        field_selector=target.field_selector,
        continue_token=continue_token,
        limit=target.page,
        accept=METADATA_LIST if target.metadata_only else JSON_FORM,
    )
    objects = tuple(read_object(bytes(item), target) for item in page.items or ())
    return Listed(objects, page.metadata.resource_version, page.metadata.continue_token)


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Change(msgspec.Struct, Generic[T], frozen=True):
    """A line of a watch with an object, decoded in one step, as most lines are."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: T


@functools.cache
def _change_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Change[kind])


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _MetadataOnly(msgspec.Struct, frozen=True):
    metadata: _Meta


def _read_line(line: bytes, target: Target) -> Input:
    """One line of a watch as an input."""
    try:
        change = _change_decoder(target.type).decode(line)
    except msgspec.ValidationError:
        return _read_by_parts(line, target)
    return Observed(_transform(change.object, target), deleted=change.type == "DELETED")


def _read_by_parts(line: bytes, target: Target) -> Input:
    """The input from a line that is no valid change: a bookmark, an error, or an invalid object."""
    event = decode(_Line, line)
    if event.type == "ERROR":
        status = parse_status(event.object)
        if status is None:
            return Failed(TransportError(f"{target.resource}: the stream reported an error without a Status"))
        return Failed(from_status(status))
    if event.type == "BOOKMARK":
        meta = decode(_MetadataOnly, bytes(event.object)).metadata
        return Bookmark(meta.resource_version, initial_end=meta.annotations.get(INITIAL_END) == "true")
    return Observed(read_object(bytes(event.object), target), deleted=event.type == "DELETED")


def read_object(data: bytes, target: Target) -> Any:
    """An object as the target wants it; `Unreadable` if it cannot be decoded, `DroppedObject` if it is not wanted.

    `data` has only the bytes of the object, since `msgspec.Raw` fields of the object keep all of `data` in memory.
    """
    try:
        obj = decode(target.type, data)
    except UnreadableAnswerError as error:
        meta = decode(_MetadataOnly, data).metadata
        identity = Identity(
            namespace=meta.namespace, name=meta.name, uid=meta.uid, resource_version=meta.resource_version
        )
        return Unreadable(identity, error.reason[:200])
    return _transform(obj, target)


def _transform(obj: Any, target: Target) -> Any:
    if target.transform is None:
        return obj
    result = target.transform(obj)
    return DroppedObject(obj.metadata) if result is None else result
