"""`jobset validate --local-server`: starts an API server for one run, which serves JobSets and holds no objects.

The checks are those of any other cluster (`server_checks`), so findings are those of a cluster without policies and
quotas.
"""

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from authoring.checks import CheckError
from authoring.server_checks import ServerChecks
from cli.check.cluster import connect
from dev.cluster.assets import Sources, present
from dev.cluster.cluster import running
from dev.cluster.errors import DevclusterError
from dev.cluster.progress import step
from dev.cluster.spec import ClusterSpec
from dev.local import LocalError, install

SPEC = ClusterSpec(name="validate", profile="api", audit=False)


@contextlib.asynccontextmanager
async def start_server() -> AsyncIterator[ServerChecks]:
    """Checks against an API server that runs for the length of the block. `CheckError` when there is none to start."""
    if not present(Sources()):
        raise CheckError("--local-server needs kube-apiserver and etcd: `jobset cluster fetch` brings them here, once")
    try:
        with contextlib.ExitStack() as stack:
            with step("starting a local API server"):
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="jobset-validate-"))
                cluster = stack.enter_context(running(SPEC, state_root=Path(folder)))
                install(cluster, webhook_port=None)
            async with connect(str(cluster.kubeconfig), "", empty=True) as checks:
                yield checks
    except (DevclusterError, LocalError) as error:
        raise CheckError(f"the local API server: {error}") from error
