"""TLS connections with cheap reads."""

import ssl
from typing import Any

LARGEST_RECORD = 16 * 1024
"""Bytes of the largest TLS record: one read never returns more."""


class RecordReader(ssl.SSLObject):
    """Reads one record at a time.

    Event loops read with 256 KiB of memory, each time and twice for each message. A process that returns such blocks to
    the system at once (`app.heap`) would allocate new ones in every read: 0.1 ms for a message of 4 KiB.
    """

    def read(self, len: int = LARGEST_RECORD, buffer: Any = None) -> Any:  # noqa: A002 -- the name of the base class
        return super().read(min(len, LARGEST_RECORD), buffer)


def client_context(authority: bytes) -> ssl.SSLContext:
    """A context that trusts these certificates in PEM, with comments in any encoding.

    If empty, it trusts the system's.
    """
    return ssl.create_default_context(cadata=authority.decode("ascii", errors="backslashreplace"))


def read_by_record(context: ssl.SSLContext) -> ssl.SSLContext:
    """The context; its connections now read one record at a time."""
    context.sslobject_class = RecordReader
    return context
