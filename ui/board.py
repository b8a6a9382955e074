"""Tracks changed rows of the list, for any number of browsers. Does no IO.

A browser sends the version that it has seen, so a slow one costs no memory: it gets the changes since then, or all rows
if the board does not remember that version.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kube.indexes import Key
from kube.model.meta import JSON

REMEMBERED = 1000
"""Deleted JobSets that are remembered, so that browsers can remove them."""


@dataclass(slots=True)
class _Row:
    version: int
    body: bytes


class Board:
    """The rows and the version of each. `epoch` tells versions of this process from versions of earlier ones.

    `changed` is set when the version changes, and replaced by a new event.
    """

    def __init__(self, epoch: str) -> None:
        self.epoch = epoch
        self.version = 1
        self.changed = asyncio.Event()
        self._rows: dict[Key, _Row] = {}
        self._gone: deque[tuple[int, Key]] = deque(maxlen=REMEMBERED)
        self._forgotten = 0
        self._dirty: set[Key] = set()
        self._notes = b"[]"
        self._noted = 1

    def touch(self, key: Key) -> None:
        """Note that a set, or an object of it, has changed."""
        self._dirty.add(key)

    def note(self, notes: list[str]) -> None:
        """Set the notes about missing data, replacing earlier ones."""
        body = msgspec.json.encode(notes)
        if body != self._notes:
            self._notes, self._noted = body, self.version + 1

    def publish(self, row_of: Callable[[Key], JSON | None]) -> None:
        """Compute the rows of all touched sets again, and wake the tasks that wait for `changed`."""
        if not self._dirty and self._noted <= self.version:
            return
        self.version += 1
        dirty, self._dirty = self._dirty, set()
        for key in dirty:
            found = row_of(key)
            if found is not None:
                self._rows[key] = _Row(self.version, msgspec.json.encode(found))
            elif self._rows.pop(key, None) is not None:
                if len(self._gone) == REMEMBERED:
                    self._forgotten = self._gone[0][0]
                self._gone.append((self.version, key))
        before, self.changed = self.changed, asyncio.Event()
        before.set()

    def since(self, cursor: str) -> bytes:
        """The changes since a browser saw `<epoch>-<version>`, as JSON; all rows for any other text.

        Its fields: `whole`, whether these are all rows, `rows`, new or changed ones, `gone`, as "namespace/name", and
        `notes` about missing data.
        """
        epoch, _, number = cursor.rpartition("-")
        known = epoch == self.epoch and number.isascii() and number.isdigit() and len(number) < 18
        version = int(number) if known else 0
        whole = not known or version < self._forgotten or version > self.version
        rows = b",".join(row.body for row in self._rows.values() if whole or row.version > version)
        deleted = [] if whole else [f"{key[0]}/{key[1]}" for deleted_at, key in self._gone if deleted_at > version]
        head = b'{"whole":%s,"rows":[%s],"gone":%s,"notes":%s}'
        return head % (b"true" if whole else b"false", rows, msgspec.json.encode(deleted), self._notes)

    @property
    def cursor(self) -> str:
        """The version of a browser that has got everything until now."""
        return f"{self.epoch}-{self.version}"
