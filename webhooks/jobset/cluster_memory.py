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
"""How long an answer counts. A quota or a policy that changes meanwhile is missed by a warning, nothing more."""
MOST = 1024
"""Digests remembered, the latest: some 100 KiB."""

_OF_KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation that repeats the manifest, its name included."""


class AcceptedSets:
    """By digest (`digest`); each is forgotten after `SECONDS`, and the oldest beyond `MOST`. Times are of the loop."""

    def __init__(self) -> None:
        self._until: OrderedDict[bytes, float] = OrderedDict()
        self._asking: dict[bytes, asyncio.Event] = {}

    @contextlib.asynccontextmanager
    async def turn(self, key: bytes, deadline: float) -> AsyncIterator[bool]:
        """Whether this set is accepted. While one is asked about, its likes wait for the answer, until `deadline`."""
        asking = self._asking.get(key)
        if asking is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await asking.wait()
            yield self.knows(key, asyncio.get_running_loop().time())
            return
        asking = self._asking[key] = asyncio.Event()
        try:
            yield self.knows(key, asyncio.get_running_loop().time())
        finally:
            del self._asking[key]
            asking.set()

    def knows(self, key: bytes, now: float) -> bool:
        return self._until.get(key, now) > now

    def add(self, key: bytes, now: float) -> None:
        self._until[key] = now + SECONDS
        self._until.move_to_end(key)
        if len(self._until) > MOST:
            self._until.popitem(last=False)


def digest(js: JSON, namespace: str, wanted: Iterable[int], *, service: bool) -> bytes:
    """What the answers about a JobSet's children depend on, but for its name.

    `wanted` are the indices of the ReplicatedJobs that are asked about, `service` whether the Service is, too.
    """
    meta = js.get("metadata") or {}
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key != _OF_KUBECTL}
    content = (namespace, meta.get("labels"), annotations, js.get("spec"), sorted(wanted), service)
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).digest()
