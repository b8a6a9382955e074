"""Fields of every log line of one reconcile or one admission review."""

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType

current: ContextVar[Mapping[str, str | int]] = ContextVar("log_fields", default=MappingProxyType({}))
"""The fields by key. A task or thread inherits the fields of the code that starts it."""


@contextlib.contextmanager
def log_fields(**fields: str | int) -> Iterator[None]:
    """A block whose log lines have exactly these fields and those that `add_log_fields` adds."""
    token = current.set(fields)
    try:
        yield
    finally:
        current.reset(token)


def add_log_fields(**fields: str | int) -> None:
    """Add these fields to all further lines of the block."""
    current.set({**current.get(), **fields})
