"""Reads lists page by page, up to a limit, and keeps what was left out. Only reads; decides nothing."""

from collections.abc import AsyncIterator
from typing import Any

from kube.client import Client
from kube.errors import NotFound
from kube.options import COMMAND_TIMEOUT
from kube.resources import Resource

LOOKED_AT = 3
"""Objects that are looked up one by one, of many in the same state."""
PAGE = 500
MOST_PAGES = 20
"""Pages of what belongs to others: leaders of other JobSets, events of other Jobs."""


class Reader:
    """Reads in one namespace. `unseen`: what was left out and why, each once."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.unseen: list[str] = []

    def all(self, resource: Resource, kind: Any, **options: Any) -> AsyncIterator[Any]:
        """All objects of a list; `options` are those of `Client.pages`."""
        options = {"namespace": self._namespace, "limit": PAGE, "timeout": COMMAND_TIMEOUT, **options}
        return self._client.pages(resource, type=kind, **options)

    async def some(
        self, resource: Resource, kind: Any, subject: str, *, pages: int = MOST_PAGES, **options: Any
    ) -> AsyncIterator[Any]:
        """The first pages of what may be any number."""
        number = 0
        async for item in self.all(resource, kind, **options):
            if number == PAGE * pages:
                self.skip(f"{subject} beyond the first {number}")
                return
            number += 1
            yield item

    async def one(self, resource: Resource, kind: Any, name: str, *, namespace: str | None = None) -> Any:
        """One object; None if there is none. Raises `Forbidden`."""
        where = self._namespace if namespace is None else namespace
        try:
            return await self._client.get(resource, name, namespace=where, type=kind, timeout=COMMAND_TIMEOUT)
        except NotFound:
            return None

    def skip(self, text: str) -> None:
        if text not in self.unseen:
            self.unseen.append(text)
