"""Remembers JobSets that the API server has just accepted. For sets that differ only in the name, nothing is sent.

A parameter sweep, or a queue that admits sets, often creates dozens of such sets at once. This module does no IO.

Remembered: sets whose children the API server accepted without a warning, by a digest of namespace and spec, for 30 s;
1,024 at most. Without a digest the dry runs of one more set are sent; if an answer is wrong, a warning is missing.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterable

import msgspec

from kube.model.expiring import Expiring
from kube.model.meta import JSON, LAST_APPLIED

ANSWER_SECONDS = 30.0
"""Seconds for which an answer is used.

If a quota or a policy changes meanwhile, or an object takes the name of a child, a warning about it is missing.
"""
WAIT_SECONDS = 0.5
"""Seconds that a set waits for the answer about a set with the same digest, before its own requests are sent."""
MAX_DIGESTS = 1024
"""The most digests that are remembered: some 100 KiB."""


class AnsweredSets:
    """Whether a set was accepted without findings, by its digest (`digest`). An answer is used for `ANSWER_SECONDS`.

    Times are of the event loop.
    """

    def __init__(self) -> None:
        self._answers: Expiring[bytes, bool] = Expiring(MAX_DIGESTS)
        self._running_checks: dict[bytes, asyncio.Event] = {}

    @contextlib.asynccontextmanager
    async def single_check(self, key: bytes) -> AsyncIterator[bool]:
        """Yields whether a set with this digest was accepted. While one set is checked, sets with its digest wait.

        After an answer with findings no set waits: each set is sent and gets its own findings.
        """
        is_accepted = self._answer(key)
        check_ended = self._running_checks.get(key)
        if is_accepted is None and check_ended is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await check_ended.wait()
            is_accepted = self._answer(key)
        if is_accepted is not None or key in self._running_checks:
            yield bool(is_accepted)
            return
        check_ended = self._running_checks[key] = asyncio.Event()
        try:
            yield False
        finally:
            del self._running_checks[key]
            check_ended.set()

    def add(self, key: bytes, *, is_accepted: bool) -> None:
        """Remember the answer about a set that was sent."""
        self._answers.put(key, is_accepted, asyncio.get_running_loop().time() + ANSWER_SECONDS)

    def _answer(self, key: bytes) -> bool | None:
        return self._answers.get(key, asyncio.get_running_loop().time())


def digest(js: JSON, namespace: str, indices: Iterable[int], *, with_service: bool) -> bytes:
    """A digest of all data, except the name, on which the answers about the children of a JobSet depend.

    `indices`: the ReplicatedJobs of which a Job is sent; `with_service`: whether the Service is sent, too.
    """
    meta = js.get("metadata") or {}
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key != LAST_APPLIED}
    content = (namespace, meta.get("labels"), annotations, js.get("spec"), sorted(indices), with_service)
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).digest()
