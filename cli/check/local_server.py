"""Starts an API server for one run of `jobset validate --local-server`. It serves JobSets and has no objects.

The checks are the same as for any cluster (authoring/server_checks.py), so the findings are those of a cluster without
policies and quotas.
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
from dev.local import install

SPEC = ClusterSpec(name="validate", profile="api", audit=False)


@contextlib.contextmanager
def local_cluster(
    flag: str, spec: ClusterSpec, also_started: str, prepare: Callable[[Cluster, Path, contextlib.ExitStack], None]
) -> Iterator[Cluster]:
    """A control plane that runs for the length of the block. Raises `CheckError` if it cannot be started.

    `flag`: the flag of the user. `also_started`: the end of a message that names what else is started. `prepare`: is
    called after the start of the control plane.
    """
    if not has_binaries(Sources()):
        raise CheckError(f"{flag} needs kube-apiserver and etcd: `jobset cluster fetch` brings them here, once")
    try:
        with contextlib.ExitStack() as stack:
            with step(f"starting a local API server{also_started}"):
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"jobset-{spec.name}-")))
                cluster = stack.enter_context(running(spec, state_root=folder))
                prepare(cluster, folder, stack)
            yield cluster
    except DevclusterError as error:
        raise CheckError(f"the local API server: {error}") from error


@contextlib.asynccontextmanager
async def start_server() -> AsyncIterator[ServerChecks]:
    """Checks at an API server that runs for the length of the block. Raises `CheckError` if it cannot be started."""
    with local_cluster("--local-server", SPEC, "", lambda cluster, *_: install(cluster, webhook_port=None)) as cluster:
        async with connect(str(cluster.kubeconfig), "", is_temporary=True) as checks:
            yield checks
