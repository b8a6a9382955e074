"""Connects to the cluster of a kubeconfig to check manifests with the rights of the user."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from authoring.checks import CheckError
from authoring.server_checks import TIMEOUT, ServerChecks, failure_text
from cli import session
from controllers.resources import JOBSETS
from kube.errors import KubeError, NotFound


@contextlib.asynccontextmanager
async def connect(kubeconfig: str, context: str, *, is_temporary: bool = False) -> AsyncIterator[ServerChecks]:
    """Checks at a cluster. Raises `CheckError` if the cluster cannot be reached or does not serve JobSets.

    `is_temporary`: whether the cluster runs only for these checks.
    """
    path = f"/apis/{JOBSETS.api_version}"
    try:
        async with session.connect(session.ClusterFlags(kubeconfig=kubeconfig, context=context)) as connection:
            async with asyncio.timeout(TIMEOUT):
                await connection.client.raw(path)
            yield ServerChecks(connection.client, connection.namespace, is_temporary=is_temporary)
    except NotFound as error:
        raise CheckError(f"the cluster does not serve JobSets ({path}): apply manifests/install.yaml first") from error
    except (KubeError, TimeoutError) as error:
        raise CheckError(failure_text(error)) from error
