"""Tracks changed rows of the list, for any number of browsers. Does no IO.

A browser sends the version that it has seen, so a slow browser costs no memory. It gets the changes since this version,
or all rows if the board does not remember this version.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kube.indexes import Key
from kube.model.meta import JSON

MAX_DELETED = 1000
"""Deleted JobSets that the board remembers, so that browsers can remove their rows."""


@dataclass(slots=True)
class _Row:
    version: int
    body: bytes


class Board:
    """The rows and their versions. `epoch` distinguishes versions of this process from versions of earlier processes.

    `changed` is set when the version changes, and replaced by a new event.
    """

    def __init__(self, epoch: str) -> None:
        self.epoch = epoch
        self.version = 1
        self.changed = asyncio.Event()
        self._rows: dict[Key, _Row] = {}
        self._deleted: deque[tuple[int, Key]] = deque(maxlen=MAX_DELETED)
        self._forgotten_version = 0
        self._touched_keys: set[Key] = set()
        self._notes = b"[]"
        self._notes_version = 1

    def touch(self, key: Key) -> None:
        """Note that a set, or an object of it, has changed."""
        self._touched_keys.add(key)

    def note(self, notes: list[str]) -> None:
        """Set the notes about missing data, replacing earlier ones."""
        body = msgspec.json.encode(notes)
        if body != self._notes:
            self._notes, self._notes_version = body, self.version + 1

    def publish(self, row_of: Callable[[Key], JSON | None]) -> None:
        """Compute the rows of all touched sets again, and wake the tasks that wait for `changed`."""
        if not self._touched_keys and self._notes_version <= self.version:
            return
        self.version += 1
        touched_keys, self._touched_keys = self._touched_keys, set()
        for key in touched_keys:
            row = row_of(key)
            if row is not None:
                self._rows[key] = _Row(self.version, msgspec.json.encode(row))
            elif self._rows.pop(key, None) is not None:
                if len(self._deleted) == MAX_DELETED:
                    self._forgotten_version = self._deleted[0][0]
                self._deleted.append((self.version, key))
        previous_event, self.changed = self.changed, asyncio.Event()
        previous_event.set()

    def changes_since(self, cursor: str) -> bytes:
        """The changes since a browser saw `<epoch>-<version>`, as JSON; all rows for any other text.

        Its fields: `whole` (whether `rows` has all rows), `rows` (new and changed rows), `gone` (deleted JobSets, as
        "namespace/name"), and `notes` about missing data.
        """
        epoch, _, number = cursor.rpartition("-")
        is_known = epoch == self.epoch and number.isascii() and number.isdigit() and len(number) < 18
        version = int(number) if is_known else 0
        is_whole = not is_known or version < self._forgotten_version or version > self.version
        rows = b",".join(row.body for row in self._rows.values() if is_whole or row.version > version)
        deleted = (
            [] if is_whole else [f"{key[0]}/{key[1]}" for deleted_at, key in self._deleted if deleted_at > version]
        )
        head = b'{"whole":%s,"rows":[%s],"gone":%s,"notes":%s}'
        return head % (b"true" if is_whole else b"false", rows, msgspec.json.encode(deleted), self._notes)

    @property
    def cursor(self) -> str:
        """The version that a browser with all present rows has seen: `<epoch>-<version>`."""
        return f"{self.epoch}-{self.version}"
