"""What several files of tests share and start once: clusters, and the managers in them."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Shared:
    """Starts each of them when it is first asked for; closing ends all, the newest first."""

    def __init__(self) -> None:
        self._running: dict[str, Any] = {}
        self._stack = contextlib.ExitStack()

    def get(self, name: str, start: Callable[[], AbstractContextManager[T]]) -> T:
        """The running one of this name."""
        if name not in self._running:
            self._running[name] = self._stack.enter_context(start())
        running: T = self._running[name]
        return running

    def close(self) -> None:
        """End all; they are started again where they are asked for again."""
        self._running.clear()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
