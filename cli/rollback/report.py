"""Writes the concerns of `jobset rollback-check` as lines, YAML or JSON.

A concern is a change of behavior of one object after a rollback to the Go JobSet. It is written as soon as it is found.
"""

import json
import textwrap
from dataclasses import asdict
from typing import TextIO

from api.rollback import Concern
from cli.messages import printable
from cli.output import dump

_START = {"json": '{\n  "concerned": [', "yaml": "concerned:", "table": ""}
_NOTHING = {"json": "]\n}\n", "yaml": " []\n", "table": "nothing would behave otherwise under the Go JobSet\n"}
_END = {"json": "\n  ]\n}\n", "yaml": "", "table": ""}


class Report:
    """Writes concerns to `out`. After the last concern, call `close`."""

    def __init__(self, output: str, out: TextIO) -> None:
        self.count = 0
        self._output = output
        self._out = out

    def add(self, concern: Concern) -> None:
        """Write one concern."""
        if not self.count:
            self._out.write(_START[self._output])
        self._out.write({"json": self._json, "yaml": self._yaml, "table": self._line}[self._output](concern))
        self.count += 1

    def close(self) -> None:
        """Write the end of the output, or that there are no concerns."""
        self._out.write(_END[self._output] if self.count else _START[self._output] + _NOTHING[self._output])

    def _json(self, concern: Concern) -> str:
        comma = "," if self.count else ""
        return f"{comma}\n{textwrap.indent(json.dumps(asdict(concern), indent=2), '    ')}"

    def _yaml(self, concern: Concern) -> str:
        start = "" if self.count else "\n"
        return start + textwrap.indent(dump(asdict(concern), "yaml"), "  ").replace("  ", "- ", 1)

    @staticmethod
    def _line(concern: Concern) -> str:
        subject = f"{concern.kind} {concern.namespace}/{concern.name}: {concern.path}"
        return printable(f"{subject}: {concern.happens}; {concern.remedy}") + "\n"
