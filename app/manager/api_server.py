"""The stage that waits until the API server answers and serves JobSets. Certificates and caches need it."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from app.manager.options import StartError
from controllers.resources import JOBSETS
from kube.client import Client
from kube.errors import KubeError, ServerError, TooManyRequests, TransportError
from manifests.naming import APPLY_CRD

log = logging.getLogger(__name__)

NOT_SERVED = (
    f"the cluster does not serve {JOBSETS.plural} (/apis/{JOBSETS.api_version}): apply their CRD: {APPLY_CRD};"
    " a cluster without anything of JobSet needs all of it: helm install, or make install in a clone"
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pauses between tries while the API server does not answer, in seconds."""

    first_pause: float = 0.5
    longest_pause: float = 10.0
    log_every: float = 60.0

    def pauses(self) -> Iterator[float]:
        """Yield pauses in seconds, each twice as long as the pause before, up to the longest."""
        pause = self.first_pause
        while True:
            yield min(pause, self.longest_pause)
            pause = min(2 * pause, self.longest_pause)


DEFAULT = Waiting()


async def await_jobsets(client: Client, waiting: Waiting = DEFAULT, *, is_worker: bool = False) -> None:
    """Wait until the API server answers and serves JobSets.

    Raises `StartError`, with what to do, if the API server does not serve JobSets. Raises `KubeError` for permanent
    errors: refused credentials, or a certificate that is not trusted.

    `is_worker`: whether the manager has forked this process to serve admission. The manager then waits in the same way,
    and ends its workers at an error. So a worker raises nothing, and logs a problem only after `log_every`.
    """
    loop = asyncio.get_running_loop()
    began, has_warned = loop.time(), False
    log_at = began + waiting.log_every if is_worker else began
    for pause in waiting.pauses():
        try:
            if JOBSETS.plural in await client.served_resources(JOBSETS.api_version):
                break
            if not is_worker:
                raise StartError(NOT_SERVED)
        except KubeError as error:
            if not (is_worker or _is_temporary(error)):
                raise
            if (now := loop.time()) >= log_at:
                log.warning("waiting for the API server, which does not answer (%.0f s so far): %s", now - began, error)
                log_at, has_warned = now + waiting.log_every, True
        await asyncio.sleep(pause)
    if has_warned:
        log.info("the API server answers after %.0f s", loop.time() - began)


def _is_temporary(error: KubeError) -> bool:
    """Whether an API server that starts, restarts or is overloaded can cause the error."""
    if isinstance(error, TransportError):
        return not error.untrusted
    return isinstance(error, ServerError | TooManyRequests)
