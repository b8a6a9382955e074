"""The Python of docs/python-client.md, as somebody would paste it piece by piece."""

import re
from pathlib import Path
from typing import Any

PIECE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WAIT = "    try:\n"
"""Where the first piece begins to wait for the end of the JobSet."""


class Pasted:
    """Runs the pieces, in their order but for those that need a JobSet that has ended: they come last."""

    def __init__(self, page: Path) -> None:
        create, *others = PIECE.findall(page.read_text(encoding="utf-8"))
        self._create, self._wait = create.split(WAIT)
        self._last = [piece for piece in others if "progress" in piece]
        self._others = [piece for piece in others if piece not in self._last]
        assert (len(self._others), len(self._last)) == (4, 1)
        self._names: dict[str, Any] = {"display": print}

    def until_the_end(self) -> None:
        """What works while the JobSet `train` runs."""
        for piece in (self._create, *self._others):
            exec(piece, self._names)  # noqa: S102 (our own page)

    def to_the_end(self) -> None:
        """What waits for its end; then it is deleted."""
        exec(f"with Client() as client:\n{WAIT}{self._wait}", self._names)  # noqa: S102 (our own page)
        for piece in self._last:
            exec(piece, self._names)  # noqa: S102 (our own page)
