"""Remembers which JobSets the API server accepted all children of a moment ago: one just like it is not asked about.

Sets of one shape often come by the dozen, and at once: a sweep of parameters, a queue that admits. Must not do IO.
"""

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable

import msgspec

from api.meta import JSON

SECONDS = 30.0
"""How long an answer counts.

Meanwhile a quota or a policy may change, and an object may have the name of a child: these warnings are left out.
"""
WAIT_SECONDS = 0.5
"""How long a set waits for the answer about one like it, before it is asked about, too."""
MOST = 1024
"""Digests remembered, the latest: some 100 KiB."""

_OF_KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation that repeats the manifest, its name included."""


class AnsweredSets:
    """Whether there was nothing to say about a set, by digest (`digest`). Each is forgotten after `SECONDS`.

    Times are of the event loop.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, tuple[float, bool]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Event] = {}

    @contextlib.asynccontextmanager
    async def turn(self, key: bytes) -> AsyncIterator[bool]:
        """Whether a set like this one was accepted. While one is asked about, its likes wait for the answer.

        Nobody waits where something was said about the last one: each gets an answer of its own then.
        """
        accepted = self._answer(key)
        asking = self._asking.get(key)
        if accepted is None and asking is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await asking.wait()
            accepted = self._answer(key)
        if accepted is not None or key in self._asking:
            yield bool(accepted)
            return
        asking = self._asking[key] = asyncio.Event()
        try:
            yield False
        finally:
            del self._asking[key]
            asking.set()

    def add(self, key: bytes, *, accepted: bool) -> None:
        """Remember what became of a set that was asked about."""
        self._answers[key] = asyncio.get_running_loop().time() + SECONDS, accepted
        self._answers.move_to_end(key)
        if len(self._answers) > MOST:
            self._answers.popitem(last=False)

    def _answer(self, key: bytes) -> bool | None:
        until, accepted = self._answers.get(key, (0.0, False))
        return accepted if asyncio.get_running_loop().time() < until else None


def digest(js: JSON, namespace: str, wanted: Iterable[int], *, service: bool) -> bytes:
    """What the answers about a JobSet's children depend on, but for its name.

    `wanted` are the indices of the ReplicatedJobs that are asked about, `service` whether the Service is, too.
    """
    meta = js.get("metadata") or {}
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key != _OF_KUBECTL}
    content = (namespace, meta.get("labels"), annotations, js.get("spec"), sorted(wanted), service)
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).digest()
