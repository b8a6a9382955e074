"""Both clients of `jobset_client` behind one face, so that each test asks both."""

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from itertools import islice
from types import ModuleType
from typing import Any, Protocol


class Face(Protocol):
    """A client as its blocking form has it; `first(n, ...)` gives the first n of what `watch` or `logs` give."""

    def __getattr__(self, name: str) -> Any: ...

    def first(self, method: str, number: int, **options: Any) -> list[Any]: ...


def aio() -> ModuleType:
    """`jobset_client.aio`, whose import takes a second that other tests need not pay."""
    return importlib.import_module("jobset_client.aio")


class Sync:
    """`jobset_client.sync.Client`, made for each call."""

    def __init__(self, **options: Any) -> None:
        self._options = options

    def __getattr__(self, name: str) -> Callable[..., Any]:
        from jobset_client.sync import Client  # noqa: PLC0415 (a second, which other tests need not pay)

        def call(*args: Any, **options: Any) -> Any:
            with Client(**self._options) as client:
                return getattr(client, name)(*args, **options)

        return call

    def first(self, method: str, number: int, *args: Any, **options: Any) -> list[Any]:
        from jobset_client.sync import Client  # noqa: PLC0415 (see above)

        with Client(**self._options) as client:
            return list(islice(getattr(client, method)(*args, **options), number))


class Async:
    """`jobset_client.aio.AsyncClient`, made for each call, in an event loop of its own."""

    def __init__(self, **options: Any) -> None:
        self._options = options

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*args: Any, **options: Any) -> Any:
            async with aio().AsyncClient(**self._options) as client:
                return await getattr(client, name)(*args, **options)

        return lambda *args, **options: asyncio.run(call(*args, **options))

    def first(self, method: str, number: int, *args: Any, **options: Any) -> list[Any]:
        async def take() -> list[Any]:
            async with (
                aio().AsyncClient(**self._options) as client,
                aclosing(getattr(client, method)(*args, **options)) as items,
            ):
                return [item async for item in _limited(items, number)]

        return asyncio.run(take())


async def _limited(items: AsyncIterator[Any], number: int) -> AsyncIterator[Any]:
    left = number
    async for item in items:
        yield item
        left -= 1
        if not left:
            return


CLIENTS = {"sync": Sync, "async": Async}
