"""`jobset validate --local-server`: starts an API server for one run, which serves JobSets and holds no objects.

The checks are those of any other cluster (`server_checks`), so findings are those of a cluster without policies and
quotas.
"""

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from authoring.checks import CheckError
from authoring.server_checks import ServerChecks
from cli.check.cluster import connect
from dev.cluster.assets import Sources, has_binaries
from dev.cluster.cluster import Cluster, running
from dev.cluster.errors import DevclusterError
from dev.cluster.progress import step
from dev.cluster.spec import ClusterSpec
from dev.local import LocalError, install

SPEC = ClusterSpec(name="validate", profile="api", audit=False)


@contextlib.contextmanager
def local_cluster(
    flag: str, spec: ClusterSpec, beside: str, prepare: Callable[[Cluster, Path, contextlib.ExitStack], None]
) -> Iterator[Cluster]:
    """A control plane, made ready by `prepare`, for the length of the block.

    Raises `CheckError` if none can be started. `flag`: the flag that asks for it. `beside`: what else is started, in
    words.
    """
    if not has_binaries(Sources()):
        raise CheckError(f"{flag} needs kube-apiserver and etcd: `jobset cluster fetch` brings them here, once")
    try:
        with contextlib.ExitStack() as stack:
            with step(f"starting a local API server{beside}"):
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"jobset-{spec.name}-")))
                cluster = stack.enter_context(running(spec, state_root=folder))
                prepare(cluster, folder, stack)
            yield cluster
    except (DevclusterError, LocalError) as error:
        raise CheckError(f"the local API server: {error}") from error


@contextlib.asynccontextmanager
async def start_server() -> AsyncIterator[ServerChecks]:
    """Checks against an API server that runs for the length of the block. Raises `CheckError`."""
    with local_cluster("--local-server", SPEC, "", _install) as cluster:
        async with connect(str(cluster.kubeconfig), "", empty=True) as checks:
            yield checks


def _install(cluster: Cluster, _folder: Path, _stack: contextlib.ExitStack) -> None:
    install(cluster, webhook_port=None)
