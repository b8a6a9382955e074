"""Remembers which JobSets the API server has just accepted, so that a set that differs only in its name is not sent.

Such sets are often created by the dozen at once: a parameter sweep, or admissions by a queue. Does no IO.

Remembered: sets whose children the API server accepted without a warning, by a digest of namespace and spec, for 30 s;
1,024 at most. Without it the dry runs of one more set are sent; if it is wrong, a warning is missing.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterable

import msgspec

from kube.model.expiring import Expiring
from kube.model.meta import JSON, LAST_APPLIED

SECONDS = 30.0
"""How long an answer is used.

Meanwhile a quota or a policy may change, or an object may take the name of a child: then these warnings are missing.
"""
WAIT_SECONDS = 0.5
"""How long a set waits for the answer about another one before its own requests are sent."""
MAX_DIGESTS = 1024
"""Digests that are remembered, the latest ones: some 100 KiB."""


class AnsweredSets:
    """Whether a set was accepted without findings, by its digest (`digest`). An answer is used for `SECONDS`.

    Times are of the event loop.
    """

    def __init__(self) -> None:
        self._answers: Expiring[bytes, bool] = Expiring(MAX_DIGESTS)
        self._asking: dict[bytes, asyncio.Event] = {}

    @contextlib.asynccontextmanager
    async def turn(self, key: bytes) -> AsyncIterator[bool]:
        """Whether a set of this digest was accepted. While one is checked, others with its digest wait for the answer.

        After one with findings none waits: each set is sent and gets its own findings.
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
        """Remember the answer about a set that was sent."""
        self._answers.put(key, accepted, asyncio.get_running_loop().time() + SECONDS)

    def _answer(self, key: bytes) -> bool | None:
        return self._answers.get(key, asyncio.get_running_loop().time())


def digest(js: JSON, namespace: str, wanted: Iterable[int], *, service: bool) -> bytes:
    """A digest of everything that the answers about a JobSet's children depend on, except its name.

    `wanted` are the indices of the ReplicatedJobs of which a Job is sent, `service` whether the Service is sent, too.
    """
    meta = js.get("metadata") or {}
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key != LAST_APPLIED}
    content = (namespace, meta.get("labels"), annotations, js.get("spec"), sorted(wanted), service)
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).digest()
