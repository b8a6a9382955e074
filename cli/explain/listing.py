"""`jobset explain` without a name: every JobSet in one line, with the cause of its wait."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TextIO

from api import keys
from api.jobset import JobSet
from cli.explain.show import age_of, json_form, one_line
from cli.messages import printable
from cli.output import columns
from controllers.resources import JOBSETS
from diagnose import look_up
from diagnose.case import never_held, unheld, was_reconciled
from diagnose.finding import Finding, Level, pluralize
from diagnose.gather import gather_about
from diagnose.manager_causes import UNMANAGED, missing_manager
from diagnose.reasons import Explanation, explain
from kube.client import Client
from kube.clock import now as wall_clock
from kube.errors import KubeError
from kube.options import COMMAND_TIMEOUT
from kube.parallel import each
from kube.reader import Reader

MAX_JOBSETS = 1000
"""JobSets of one list. Each that has not ended costs three to twelve calls."""
_TOGETHER = 8
"""JobSets in memory at a time while they are explained."""


class Listing:
    """The lines of a list, in the order of namespace and name. `left_out`: whether there are more JobSets."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.left_out = False
        self._rows: list[tuple[str, ...]] = []
        self._unseen: dict[str, None] = {}
        self._reconciled = False
        self._unmanaged = 0
        self._no_manager: Finding | None = None

    def add(self, js: JobSet, explanation: Explanation) -> None:
        self._reconciled |= was_reconciled(js)
        now = wall_clock()
        since = age_of(explanation.root.since, now)
        own, no_manager = _apart(explanation)
        if no_manager is not None:
            self._unmanaged += 1
            self._no_manager = no_manager
        self._rows.append((
            explanation.namespace,
            explanation.name,
            explanation.state.phrase,
            since or "-",
            cause_line(own) or "-",
        ))  # fmt: skip
        self.bodies.append(json_form(explanation, now))
        self._unseen |= dict.fromkeys(explanation.unseen)

    async def look_for_manager(self, client: Client) -> None:
        """Look for a manager if no set has made `explain` read its lease.

        A manager without leader election has no lease: it runs if anything was done about one of the sets.
        """
        if not self.bodies or (self._no_manager and not self._reconciled):
            return
        read = Reader(client, keys.MANAGER_NAMESPACE)
        lease = await look_up.lease(read)
        if self._reconciled and never_held(lease):
            self._no_manager = None
        elif self._no_manager is None and unheld(lease, wall_clock()):
            self._no_manager = missing_manager(lease, await look_up.managers(read), wall_clock())
        self._unseen |= dict.fromkeys(read.unseen)

    def write(self, out: TextIO, *, namespaces: bool, width: int = 0) -> None:
        """A table, the last column of which is never cut; wrapped, if there is a `width`.

        Below it, once each: that no manager runs, and what was not read.
        """
        rows = [("NAMESPACE", "NAME", "STATE", "SINCE", "CAUSE"), *self._rows]
        out.writelines(columns([row if namespaces else row[1:] for row in rows], width=width))
        if self._no_manager is not None:
            waits = pluralize(self._unmanaged, "JobSet", "waits", "wait") if self._unmanaged else "no JobSet waits"
            out.write(f"\n{waits} for a manager: {self._no_manager.message}\nto fix: {self._no_manager.fix}\n")
        out.writelines(f"not looked at: {printable(note)}\n" for note in self._unseen)


def _apart(explanation: Explanation) -> tuple[Explanation, Finding | None]:
    """The explanation without the finding that no manager runs, and that finding, which is the same for all sets."""
    root = explanation.root
    found = next((below for below in root.because if below.cause in UNMANAGED), None)
    own_findings = tuple(below for below in root.because if below is not found)
    return replace(explanation, root=replace(root, because=own_findings)), found


def cause_line(explanation: Explanation) -> str:
    """The cause of a set's wait in one line: the first of the most severe findings, and its deepest cause.

    Empty for a set that runs.
    """
    worst = _cause(explanation.root)
    if explanation.headline or worst is None:
        return one_line(explanation.headline)
    words = [worst.message]
    while below := _cause(worst):
        if below.level is Level.NOTE:
            break
        worst, words = below, [words[0], below.message]
    return ": ".join(map(one_line, words))


def _cause(root: Finding) -> Finding | None:
    """The first of the most severe findings; a note only if there is nothing else."""
    worst = [Level.FAULT, Level.WAITS, Level.FINE, Level.NOTE]
    return min(root.because, key=lambda below: worst.index(below.worst_level), default=None)


async def listing(client: Client, namespace: str | None) -> Listing:
    """Explain every JobSet of a namespace, or of all (None). Raises as listing JobSets does."""
    result, group = Listing(), list[JobSet]()
    seen = 0
    async for js in client.pages(JOBSETS, type=JobSet, namespace=namespace, limit=_TOGETHER, timeout=COMMAND_TIMEOUT):
        if seen == MAX_JOBSETS:
            result.left_out = True
            break
        seen += 1
        group.append(js)
        if len(group) == _TOGETHER:
            await _explain(client, group, result)
            group.clear()
    await _explain(client, group, result)
    await result.look_for_manager(client)
    return result


async def _explain(client: Client, group: Sequence[JobSet], result: Listing) -> None:
    found: dict[str, Explanation] = {}

    async def explain_set(js: JobSet) -> None:
        found[js.metadata.uid] = explain(await gather_about(client, js, wall_clock()))

    failures = await each(group, explain_set, lambda js: f"{js.metadata.namespace}/{js.metadata.name}: ")
    for js in group:
        if js.metadata.uid in found:
            result.add(js, found[js.metadata.uid])
    if failures:
        raise KubeError(str(failures[0]))
