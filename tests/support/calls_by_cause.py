"""The table "Calls by cause" of docs/performance.md, and how what was counted is compared with it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.pages.files import ROOT, table

JSON = dict[str, Any]

JOBS = 20
PAGE = ROOT / "docs" / "performance.md"
WHAT = "what the API server is asked for"
DECISIONS = "`patch jobsets/status`, a decision"
COUNTS = "`patch jobsets/status`, only counts"
STATUS_WRITES = "`patch jobsets/status`"
OF_ADMISSION = ("dry run:", "review:")
"""How the rows begin that admission causes."""

ADVICE = f"""{PAGE.name}, section "Calls by cause", says otherwise (wanted -> found):
{{}}
More than before: the API server has so much more to do for each such JobSet of every user. Is it necessary?
If it is, or if there are fewer now: change the table, and say why in the commit."""


class Table:
    """What is wanted, by column. `admission`: with the rows that admission causes."""

    def __init__(self, *, admission: bool) -> None:
        rows = [row for row in table(PAGE, "Calls by cause") if admission or not row[WHAT].startswith(OF_ADMISSION)]
        self.causes = [column for column in rows[0] if column != WHAT]
        self._wanted = {
            cause: Counter({row[WHAT]: int(row[cause]) for row in rows if row[cause]}) for cause in self.causes
        }
        self._wrong: list[str] = []

    def found(self, cause: str, calls: Counter[str], *, more: Mapping[str, int] | None = None) -> None:
        """Compare one column. Nothing is raised before `check`, so that all differences are told at once.

        `more`: how many more there may be than the table says, for rows that depend on time.
        """
        wanted = self._wanted[cause]
        for what in sorted(wanted | calls):
            if not wanted[what] <= calls[what] <= wanted[what] + (more or {}).get(what, 0):
                self._wrong.append(f"  {what}, {cause}: {wanted[what]} -> {calls[what]}")

    def check(self) -> None:
        assert not self._wrong, ADVICE.format("\n".join(self._wrong))


def row(verb: str, resource: str, code: int, *, dry_run: bool = False) -> str:
    """The row of a call. One that was refused has a row of its own, which the table does not have."""
    return f"{'dry run: ' if dry_run else ''}`{verb} {resource}`" + (f", answered with {code}" if code >= 400 else "")


def review(webhook: str) -> str:
    """The row of calls of a webhook."""
    return f"review: `{webhook}`"


def decisions(statuses: Iterable[Mapping[str, Any]], last: Mapping[str, Any]) -> tuple[int, JSON]:
    """How many of these statuses, in their order, differ from the one before in more than counts, and the last one."""
    decided, before = 0, _without_counts(last)
    for status in map(_without_counts, statuses):
        decided += status != before
        before = status
    return decided, before


def _without_counts(status: Mapping[str, Any]) -> JSON:
    """`readyJobs` sums the counts up."""
    counts = {"ready", "succeeded", "failed", "active", "suspended", "completedIndexes"}
    entries = status.get("replicatedJobsStatus", [])
    kept = [{key: value for key, value in entry.items() if key not in counts} for entry in entries]
    return {**status, "replicatedJobsStatus": kept, "readyJobs": None}
