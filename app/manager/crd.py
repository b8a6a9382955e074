"""Logs at the start which fields of JobSets the cluster's CRD lacks, because it is older than this program.

The API server drops such fields, or refuses manifests that have them. The fields are read from the OpenAPI document,
which every authenticated user may read: the manager has no right to get CRDs.
"""

import asyncio
import logging

import msgspec

from api.keys import API_VERSION
from kube.client import Client
from kube.errors import KubeError
from manifests.crd_fields import missing_fields
from manifests.naming import APPLY_CRD

log = logging.getLogger(__name__)

DOCUMENT = f"/openapi/v3/apis/{API_VERSION}"

RECHECK_SECONDS = 10.0
"""Seconds within which a CRD that has just been applied reaches the OpenAPI document."""


async def warn_of_old_crd(client: Client) -> None:
    """Log once which fields the CRD lacks. If the OpenAPI document cannot be read, the CRD counts as current."""
    if await _missing_fields(client):
        await asyncio.sleep(RECHECK_SECONDS)
    if fields := await _missing_fields(client):
        log.warning(
            "the CRD of JobSets is older than this manager and lacks %s: the API server refuses or drops these fields."
            " Apply it again: %s",
            ", ".join(fields),
            APPLY_CRD,
        )


async def _missing_fields(client: Client) -> list[str]:
    try:
        return missing_fields(await client.raw(DOCUMENT))
    except (KubeError, msgspec.MsgspecError) as error:
        log.debug("which fields the CRD of JobSets has is not known: %s", error)
        return []
