"""The output of `jobset rollback-check`: lines, YAML or JSON; each finding is written as soon as it is found."""

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
    """Writes to `out`. `close` marks the run as complete."""

    def __init__(self, output: str, out: TextIO) -> None:
        self.found = 0
        self._output = output
        self._out = out

    def add(self, concern: Concern) -> None:
        """Write one finding."""
        if not self.found:
            self._out.write(_START[self._output])
        self._out.write({"json": self._json, "yaml": self._yaml, "table": self._line}[self._output](concern))
        self.found += 1

    def close(self) -> None:
        """Write what follows the last finding, or that there is none."""
        self._out.write(_END[self._output] if self.found else _START[self._output] + _NOTHING[self._output])

    def _json(self, concern: Concern) -> str:
        comma = "," if self.found else ""
        return f"{comma}\n{textwrap.indent(json.dumps(asdict(concern), indent=2), '    ')}"

    def _yaml(self, concern: Concern) -> str:
        start = "" if self.found else "\n"
        return start + textwrap.indent(dump(asdict(concern), "yaml"), "  ").replace("  ", "- ", 1)

    @staticmethod
    def _line(concern: Concern) -> str:
        subject = f"{concern.kind} {concern.namespace}/{concern.name}: {concern.path}"
        return printable(f"{subject}: {concern.happens}; {concern.remedy}") + "\n"
