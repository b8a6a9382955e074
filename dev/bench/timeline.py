"""`python -m dev.bench.timeline`: draw docs/concepts/recovery-times.md's recovery from the status on that page.

Must not measure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml

from api.jobset_status import AttemptTimes, Recovery
from dev.bench import plots
from dev.bench.scene import say

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PICTURES = DOCS / "concepts" / "recovery-times.md", DOCS / "images"
STATUS = re.compile(r"^```\n(status:\n  recovery:\n.*?)^```", re.MULTILINE | re.DOTALL)

DEPENDS_ON = {
    "detectedAfterSeconds": "a watchdog, nodeFailure,\nstartTimeoutSeconds, failOn",
    "drainedAfterSeconds": "grace period of the pods,\nforceDeletePods",
    "createdAfterSeconds": "order of start, groups,\nJobs that are refused",
    "readyAfterSeconds": "nodes, images, volumes;\nrestart in place",
}
"""The steps of a recovery in their order, as the status names them, and what each depends on."""


class Step(NamedTuple):
    """One step: seconds from the failure until it begins and ends."""

    name: str
    begin: int
    end: int
    depends_on: str


def recovery(page: str) -> AttemptTimes:
    """The last recovery in the one status that a page shows."""
    [text] = STATUS.findall(page)
    return msgspec.convert(yaml.safe_load(text)["status"]["recovery"], Recovery, strict=False).attempts[-1]


def steps(attempt: AttemptTimes) -> Iterator[Step]:
    """The steps that a recovery had."""
    names = {field.encode_name: field.name for field in msgspec.structs.fields(AttemptTimes)}
    begin = 0
    for name, causes in DEPENDS_ON.items():
        end = getattr(attempt, names[name])
        if end is not None:
            yield Step(name, begin, end, causes)
            begin = end


if __name__ == "__main__":
    drawn = plots.draw_recovery([*steps(recovery(PAGE.read_text(encoding="utf-8")))], PICTURES)
    say(f"drawn: {drawn}")
