"""Reads objects for commands: lists page by page up to a limit, with notes about data that could not be read."""

from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import TypeVar, Unpack

from kube.client import PAGE_SIZE, Client
from kube.errors import Forbidden, NotFound
from kube.options import COMMAND_TIMEOUT, ListOptions
from kube.resources import Resource

MAX_EXAMPLES = 3
"""If many objects are in the same state, this many of them are read one by one."""
MAX_PAGES = 20
"""The most pages of a list that also has objects of other users: leaders of other JobSets, events of other Jobs."""

T = TypeVar("T")


class Reader:
    """Reads in one namespace. `unseen`: notes about data that were not read, with the reason, each once."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.unseen: list[str] = []

    def all(self, resource: Resource, kind: type[T], **options: Unpack[ListOptions]) -> AsyncIterator[T]:
        """All objects of a list in the namespace of the reader, or in the namespace that `options` name."""
        return self._client.pages(resource, type=kind, **self._with_defaults(options))

    async def some(
        self,
        resource: Resource,
        kind: type[T],
        subject: str,
        *,
        pages: int = MAX_PAGES,
        **options: Unpack[ListOptions],
    ) -> AsyncIterator[T]:
        """The objects of the first pages of a list. `subject` names them in the note that there are more."""
        number, page_options = 0, self._with_defaults(options)
        for _ in range(pages):
            page = await self._client.list(resource, type=kind, **page_options)
            for item in page.items or ():
                yield item
            number += len(page.items or ())
            if not page.metadata.continue_token:
                return
            page_options["continue_token"] = page.metadata.continue_token
        self.skip(f"{subject} beyond the first {number}")

    def _with_defaults(self, options: ListOptions) -> ListOptions:
        return {"namespace": self._namespace, "limit": PAGE_SIZE, "timeout": COMMAND_TIMEOUT, **options}

    async def collect(
        self,
        resource: Resource,
        kind: type[T],
        subject: str,
        note: str,
        *,
        pages: int = MAX_PAGES,
        **options: Unpack[ListOptions],
    ) -> list[T] | None:
        """The objects as a list; None if the right is missing, which is noted."""
        with self.noting(note):
            return [item async for item in self.some(resource, kind, subject, pages=pages, **options)]
        return None

    async def get(self, resource: Resource, kind: type[T], name: str, namespace: str = "") -> T | None:
        """One object; None if it does not exist. Raises `Forbidden`."""
        in_namespace = namespace or self._namespace
        try:
            return await self._client.get(resource, name, namespace=in_namespace, type=kind, timeout=COMMAND_TIMEOUT)
        except NotFound:
            return None

    async def find(self, resource: Resource, kind: type[T], name: str, note: str) -> T | None:
        """One object; None if it does not exist, or if the right is missing, which is noted."""
        with self.noting(note):
            return await self.get(resource, kind, name)
        return None

    async def by_name(self, resource: Resource, kind: type[T], names: Iterable[str], note: str) -> dict[str, T | None]:
        """The first few of these objects by name; None: it does not exist. Empty if the right is missing."""
        with self.noting(note):
            return {name: await self.get(resource, kind, name) for name in list(dict.fromkeys(names))[:MAX_EXAMPLES]}
        return {}

    def noting(self, note: str = "") -> "_Noting":
        """A block that ends at a missing right; the note names the right and the data that are unknown without it."""
        return _Noting(self, note)

    def skip(self, note: str) -> None:
        """Note that data were not read."""
        if note and note not in self.unseen:
            self.unseen.append(note)


class _Noting:
    def __init__(self, reader: Reader, note: str) -> None:
        self._reader = reader
        self._note = note

    def __enter__(self) -> None: ...

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if isinstance(error, Forbidden):
            self._reader.skip(self._note)
        return isinstance(error, Forbidden)
