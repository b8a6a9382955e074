"""The stage before all others: the API server answers, and serves JobSets."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from app.manager.options import StartError
from controllers.resources import JOBSETS
from kube.client import Client
from kube.errors import KubeError, ServerError, TooManyRequests, TransportError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Waiting:
    """How an API server is waited for that does not answer, in seconds."""

    first_pause: float = 0.5
    longest_pause: float = 10.0
    log_every: float = 60.0

    def pauses(self) -> Iterator[float]:
        """Twice as long each time, up to the longest."""
        pause = self.first_pause
        while True:
            yield min(pause, self.longest_pause)
            pause = min(2 * pause, self.longest_pause)


DEFAULT = Waiting()


async def await_jobsets(client: Client, waiting: Waiting = DEFAULT) -> None:
    """Wait until the API server answers.

    Raises `StartError` if it does not serve JobSets, and says what to do. Raises `KubeError` where time does not help:
    credentials that it refuses, or a certificate that we do.
    """
    path = f"/apis/{JOBSETS.api_version}"
    loop = asyncio.get_running_loop()
    began, log_at = loop.time(), 0.0
    for pause in waiting.pauses():
        try:
            served = await client.served(JOBSETS.api_version)
            break
        except KubeError as error:
            if not _may_pass(error):
                raise
            if (now := loop.time()) >= log_at:
                log.warning("waiting for the API server, which does not answer (%.0f s so far): %s", now - began, error)
                log_at = now + waiting.log_every
        await asyncio.sleep(pause)
    if log_at:
        log.info("the API server answers after %.0f s", loop.time() - began)
    if JOBSETS.plural not in served:
        missing = f"the cluster does not serve {JOBSETS.plural} ({path}): apply manifests/install.yaml first"
        raise StartError(missing)


def _may_pass(error: KubeError) -> bool:
    """Whether an API server that starts, restarts or is overloaded answers so."""
    if isinstance(error, TransportError):
        return not error.untrusted
    return isinstance(error, ServerError | TooManyRequests)
