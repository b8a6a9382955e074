"""The list of `jobset explain` without a name: one line for each JobSet, with the cause of its wait."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from api import keys
from api.jobset import JobSet
from cli.explain.show import age_of, json_form, one_line
from cli.messages import printable
from cli.output import columns
from controllers.resources import JOBSETS
from diagnose import look_up
from diagnose.case import is_unheld, was_never_held, was_reconciled
from diagnose.finding import Finding, Level, pluralize
from diagnose.gather import gather_about
from diagnose.manager_causes import CAUSES_WITHOUT_MANAGER, missing_manager_finding
from diagnose.reasons import Explanation, explain
from kube.client import Client
from kube.clock import now as wall_clock
from kube.errors import KubeError
from kube.options import COMMAND_TIMEOUT
from kube.parallel import each
from kube.reader import Reader

MAX_JOBSETS = 1000
"""At most this many JobSets are listed. A JobSet that has not ended costs three to twelve requests."""
_GROUP_SIZE = 8
"""At most this many JobSets are explained at the same time."""


class Listing:
    """The lines of a list, sorted by namespace and name.

    `bodies`: the explanations as JSON. `has_more`: whether there are more JobSets than `MAX_JOBSETS`.
    """

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.has_more = False
        self._rows: list[tuple[str, ...]] = []
        self._unread_notes: dict[str, None] = {}
        self._has_reconciled_jobset = False
        self._unmanaged_count = 0
        self._no_manager_finding: Finding | None = None

    def add(self, js: JobSet, explanation: Explanation) -> None:
        """Add the line of a JobSet. If no manager runs, the line leaves this out, and `lines` says it once for all."""
        self._has_reconciled_jobset |= was_reconciled(js)
        now = wall_clock()
        age_text = age_of(explanation.root.since, now)
        own_explanation, no_manager = _without_manager_finding(explanation)
        if no_manager is not None:
            self._unmanaged_count += 1
            self._no_manager_finding = no_manager
        self._rows.append((
            explanation.namespace,
            explanation.name,
            explanation.state.phrase,
            age_text or "-",
            cause_line(own_explanation) or "-",
        ))  # fmt: skip
        self.bodies.append(json_form(explanation, now))
        self._unread_notes |= dict.fromkeys(explanation.unread_notes)

    async def look_for_manager(self, client: Client) -> None:
        """Find out whether a manager runs, unless the explanations of the JobSets have shown this.

        A manager without leader election has no lease. It runs if a JobSet of the list has a status.
        """
        if not self.bodies or (self._no_manager_finding and not self._has_reconciled_jobset):
            return
        reader = Reader(client, keys.MANAGER_NAMESPACE)
        lease = await look_up.manager_lease(reader)
        if self._has_reconciled_jobset and was_never_held(lease):
            self._no_manager_finding = None
        elif self._no_manager_finding is None and is_unheld(lease, wall_clock()):
            self._no_manager_finding = missing_manager_finding(lease, await look_up.manager_pods(reader), wall_clock())
        self._unread_notes |= dict.fromkeys(reader.unseen)

    def lines(self, *, with_namespaces: bool, width: int) -> Iterator[str]:
        """The lines of the table. Below the table, lines say if no manager runs, and which facts could not be read.

        The last column is wrapped at `width`, unless this is 0.
        """
        rows = [("NAMESPACE", "NAME", "STATE", "SINCE", "CAUSE"), *self._rows]
        yield from columns([row if with_namespaces else row[1:] for row in rows], width=width)
        if self._no_manager_finding is not None:
            count = self._unmanaged_count
            waits = pluralize(count, "JobSet", "waits", "wait") if count else "no JobSet waits"
            yield f"\n{waits} for a manager: {self._no_manager_finding.message}\n"
            yield f"to fix: {self._no_manager_finding.fix}\n"
        yield from (f"not looked at: {printable(note)}\n" for note in self._unread_notes)


def _without_manager_finding(explanation: Explanation) -> tuple[Explanation, Finding | None]:
    """The explanation without the finding that no manager runs, and this finding, which is the same for all JobSets."""
    root = explanation.root
    no_manager = next((finding for finding in root.because if finding.cause in CAUSES_WITHOUT_MANAGER), None)
    own_findings = tuple(finding for finding in root.because if finding is not no_manager)
    return replace(explanation, root=replace(root, because=own_findings)), no_manager


def cause_line(explanation: Explanation) -> str:
    """Why a JobSet waits, in one line: the first of the most severe findings, and the deepest finding below it.

    Empty for a JobSet that runs.
    """
    worst_finding = _worst_cause(explanation.root)
    if explanation.headline or worst_finding is None:
        return one_line(explanation.headline)
    messages = [worst_finding.message]
    while cause := _worst_cause(worst_finding):
        if cause.level is Level.NOTE:
            break
        worst_finding, messages = cause, [messages[0], cause.message]
    return ": ".join(map(one_line, messages))


def _worst_cause(root: Finding) -> Finding | None:
    """The first of the most severe findings below a finding; a note only if there are only notes."""
    severest_first = [Level.FAULT, Level.WAITS, Level.FINE, Level.NOTE]
    return min(root.because, key=lambda finding: severest_first.index(finding.worst_level), default=None)


async def explain_all(client: Client, namespace: str | None) -> Listing:
    """Explain all JobSets of a namespace; None: of all namespaces. Raises `KubeError`."""
    result, group = Listing(), list[JobSet]()
    count = 0
    async for js in client.pages(JOBSETS, type=JobSet, namespace=namespace, limit=_GROUP_SIZE, timeout=COMMAND_TIMEOUT):
        if count == MAX_JOBSETS:
            result.has_more = True
            break
        count += 1
        group.append(js)
        if len(group) == _GROUP_SIZE:
            await _explain_group(client, group, result)
            group.clear()
    await _explain_group(client, group, result)
    await result.look_for_manager(client)
    return result


async def _explain_group(client: Client, group: Sequence[JobSet], result: Listing) -> None:
    explanations: dict[str, Explanation] = {}

    async def explain_one(js: JobSet) -> None:
        explanations[js.metadata.uid] = explain(await gather_about(client, js, wall_clock()))

    failures = await each(group, explain_one, lambda js: f"{js.metadata.namespace}/{js.metadata.name}: ")
    for js in group:
        if js.metadata.uid in explanations:
            result.add(js, explanations[js.metadata.uid])
    if failures:
        raise KubeError(str(failures[0]))
