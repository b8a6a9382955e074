"""Sends the requests of a chaos run as administrator. The API server may be down for a while."""

import contextlib
import http.client
from typing import Any

from api import keys
from dev.cluster import rest
from dev.cluster.cluster import Cluster
from kube.model.meta import JSON

JOBSETS = f"/apis/{keys.API_VERSION}/namespaces/{{}}/jobsets"
CONNECTION_ERRORS = (OSError, http.client.HTTPException)


class Admin:
    """One connection, which is made again when it breaks. Threads must not share it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._connection: rest.Connection | None = None

    def ask(
        self, method: str, path: str, body: JSON | None = None, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Send a request. Returns status and answer.

        The status is 0 if no answer came. The request may have been carried out or not.
        """
        if self._connection is None:
            self._connection = self._cluster.connect()
        try:
            return self._connection.request(method, path, body, content_type)
        except CONNECTION_ERRORS:
            self.close()
            return 0, None

    def list_objects(self, path: str) -> list[JSON] | None:
        """The objects of a collection; None if the request fails."""
        status, answer = self.ask("GET", path)
        return list(answer["items"]) if status == 200 else None

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(*CONNECTION_ERRORS):
                self._connection.__exit__()
            self._connection = None
