"""Decides how to list and watch a resource, as a pure state machine. `kube.reflector` sends the requests.

`step(state, input) -> (state, events)` makes every decision: pages, streaming list with fallback, bookmarks, relist on
410, the resourceVersion to resume from. `delay` decides how long to wait. A generation is the whole collection as a
list has it: its objects come between the events `Init` and `InitDone`. The state contains no objects.
"""

import enum
from typing import Any

import msgspec
from msgspec.structs import replace

from kube.errors import ApiError, BadRequest, Gone, Invalid, KubeError

FIRST_DELAY = 0.8
"""Seconds before the first try after a failure. They double with each failure; jitter changes them by up to half."""

MAX_DELAY = 30.0
"""Longest wait between tries, in seconds: a restarted API server should be noticed within a minute."""

MAX_RETRY_AFTER = 60.0
"""Longest Retry-After, in seconds, that a watch or an Event waits for. A proxy may ask for hours."""

STREAMING_TRIES = 3
"""After this many failures of a streaming list, the collection is listed in pages."""


class Phase(enum.Enum):
    """The next thing to do."""

    LIST = "list"
    """Ask for the next page."""
    INITIAL = "initial"
    """Open a watch that sends the whole collection first (streaming list)."""
    WATCH = "watch"
    """Open a watch from `resource_version`."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a watch. `has_begun`: whether `step` has returned the `Init` of the present generation.

    `has_delivered`: whether the present stream has delivered an event or a bookmark. `failures`: the
    number in a row. `pause`: seconds of the last Retry-After, at most `MAX_RETRY_AFTER`.
    """

    phase: Phase
    resource_version: str = ""
    continue_token: str = ""
    has_begun: bool = False
    has_delivered: bool = False
    streaming: bool = True
    failures: int = 0
    pause: float = 0.0


class Listed(msgspec.Struct, frozen=True):
    """Input: one page of a list."""

    objects: tuple[Any, ...]
    resource_version: str
    continue_token: str = ""


class Observed(msgspec.Struct, frozen=True):
    """Input: one event of a watch: DELETED if `deleted`, else ADDED or MODIFIED."""

    obj: Any
    deleted: bool = False


class Bookmark(msgspec.Struct, frozen=True):
    """Input: progress without an object. `initial_end`: a streaming list has sent all its objects."""

    resource_version: str
    initial_end: bool = False


class Failed(msgspec.Struct, frozen=True):
    """Input: the list or watch failed, or the stream carried an ERROR event."""

    error: KubeError


class Ended(msgspec.Struct, frozen=True):
    """Input: the server closed the stream, as it does every few minutes."""


Input = Listed | Observed | Bookmark | Failed | Ended


class Init(msgspec.Struct, frozen=True):
    """Event: a new generation begins."""


class InitDone(msgspec.Struct, frozen=True):
    """Event: the generation is complete as of `version`."""

    version: int


class Apply(msgspec.Struct, frozen=True):
    """Event: the object (or `Unreadable`) was created or changed."""

    obj: Any


class Delete(msgspec.Struct, frozen=True):
    """Event: the object is gone; `obj` is its last state."""

    obj: Any


class Progress(msgspec.Struct, frozen=True):
    """Event: everything up to `version` was delivered."""

    version: int


Event = Init | InitDone | Apply | Delete | Progress
Output = tuple[State, tuple[Event, ...]]


def start(*, streaming: bool = True) -> State:
    """The initial state."""
    return State(phase=Phase.INITIAL if streaming else Phase.LIST, streaming=streaming)


def delay(state: State, jitter: float) -> float:
    """Seconds to wait before the next request. `jitter`: a random number from 0 to 1."""
    if not state.failures:
        return state.pause
    backoff: float = min(MAX_DELAY, FIRST_DELAY * 2 ** min(state.failures - 1, 10))
    return max(state.pause, backoff * (0.5 + jitter))


def step(state: State, item: Input) -> Output:
    """The next state after an input, and events for the consumer."""
    match item:
        case Listed():
            return _on_page(state, item)
        case Observed():
            return _on_event(state, item)
        case Bookmark():
            return _on_bookmark(state, item)
        case Failed():
            return _on_failure(state, item.error), ()
        case Ended():
            return _on_end(state), ()


def _on_page(state: State, page: Listed) -> Output:
    events: list[Event] = [] if state.has_begun else [Init()]
    events += [Apply(obj) for obj in page.objects]
    state = replace(state, has_begun=True, failures=0, pause=0.0)
    if page.continue_token:
        return replace(state, continue_token=page.continue_token), tuple(events)
    events.append(InitDone(int(page.resource_version)))
    return _watching(state, page.resource_version), tuple(events)


def _on_event(state: State, item: Observed) -> Output:
    event = Delete(item.obj) if item.deleted else Apply(item.obj)
    if state.phase is Phase.INITIAL:
        events = (event,) if state.has_begun else (Init(), event)
        return replace(state, has_begun=True, has_delivered=True), events
    version = item.obj.metadata.resource_version
    if int(version) <= int(state.resource_version):
        return replace(state, has_delivered=True), ()
    return replace(state, resource_version=version, has_delivered=True, failures=0, pause=0.0), (event,)


def _on_bookmark(state: State, item: Bookmark) -> Output:
    version = int(item.resource_version)
    if state.phase is Phase.INITIAL:
        if not item.initial_end:
            return replace(state, has_delivered=True), ()
        events: tuple[Event, ...] = () if state.has_begun else (Init(),)
        return replace(_watching(state, item.resource_version), has_delivered=True), (*events, InitDone(version))
    if version < int(state.resource_version):
        return replace(state, has_delivered=True), ()
    state = replace(state, resource_version=item.resource_version, has_delivered=True, failures=0, pause=0.0)
    return state, (Progress(version),)


def _watching(state: State, resource_version: str) -> State:
    return State(phase=Phase.WATCH, resource_version=resource_version, streaming=state.streaming)


def _on_failure(state: State, error: KubeError) -> State:
    pause = min(MAX_RETRY_AFTER, error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
    state = replace(state, failures=state.failures + 1, pause=pause, has_delivered=False)
    refused = isinstance(error, Invalid | BadRequest)
    if state.phase is Phase.WATCH and not refused and not isinstance(error, Gone):
        return state
    if state.phase is Phase.INITIAL and refused:
        state = replace(state, streaming=False, failures=0)
    return _relist(state)


def _relist(state: State) -> State:
    streaming = state.streaming and state.failures < STREAMING_TRIES
    return replace(
        state, phase=Phase.INITIAL if streaming else Phase.LIST, resource_version="", continue_token="", has_begun=False
    )


def _on_end(state: State) -> State:
    """The state after a stream. A stream without events is a failure: else a broken proxy would cause a tight loop."""
    if state.phase is Phase.WATCH:
        return replace(state, has_delivered=False, pause=0.0, failures=0 if state.has_delivered else state.failures + 1)
    return _relist(replace(state, has_delivered=False, failures=state.failures + 1))
