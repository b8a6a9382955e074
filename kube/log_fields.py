"""What every log line of one piece of work has beside its message: a reconcile, or an admission review."""

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType

current: ContextVar[Mapping[str, str | int]] = ContextVar("log_fields", default=MappingProxyType({}))
"""By key. The lines of tasks and threads that the work starts have them, too."""


@contextlib.contextmanager
def log_fields(**fields: str | int) -> Iterator[None]:
    """The lines in this block have these fields, and those that `add_log_fields` adds, and no others."""
    token = current.set(fields)
    try:
        yield
    finally:
        current.reset(token)


def add_log_fields(**fields: str | int) -> None:
    """All further lines of the block have these, too."""
    current.set({**current.get(), **fields})
