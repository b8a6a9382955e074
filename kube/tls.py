"""TLS contexts whose connections allocate little memory for a read."""

import ssl
from typing import Any

LARGEST_RECORD = 16 * 1024
"""Bytes of the largest TLS record: one read never returns more."""


class RecordReader(ssl.SSLObject):
    """Reads at most one record at a time.

    Event loops allocate 256 KiB for a read, and read twice for each message. In a process that returns such blocks to
    the system at once (`app.heap`), these allocations would take 0.1 ms for a message of 4 KiB.
    """

    def read(self, len: int = LARGEST_RECORD, buffer: Any = None) -> Any:  # noqa: A002 -- the name of the base class
        return super().read(min(len, LARGEST_RECORD), buffer)


def client_context(authority: bytes) -> ssl.SSLContext:
    """A context that trusts the certificates of `authority` (PEM, with comments in any encoding).

    If `authority` is empty, the context trusts the certificates of the system.
    """
    return ssl.create_default_context(cadata=authority.decode("ascii", errors="backslashreplace"))


def read_by_record(context: ssl.SSLContext) -> ssl.SSLContext:
    """Make new connections of the context read one record at a time; returns the context."""
    context.sslobject_class = RecordReader
    return context
