"""Runs `jobset explain`: reads facts from a cluster, and writes the explanations."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TextIO

from cli import session
from cli.explain import show
from cli.explain.listing import MAX_JOBSETS, explain_all
from cli.explain.terminal import terminal_text
from cli.messages import has_color, printable
from cli.output import dump, width_of
from diagnose.gather import gather
from diagnose.reasons import explain
from diagnose.states import State
from kube.clock import now as wall_clock

ENDED = (State.COMPLETED, State.FAILED)
"""States in which a JobSet no longer changes."""
UPDATE_PERIOD = 2.0
"""Seconds between two updates of `--watch`."""
_TIMES_AND_AGES = re.compile(r'"time": "[^"]*"|\d+ (?:s|min|h|d)\b')
"""Times and ages, which change between updates although the JobSet has not changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(session.ClusterFlags):
    """The JobSets to explain, and the form of the output.

    Without a name, all JobSets of the namespace are explained, or of all namespaces (`everywhere`). `watch`: write the
    explanation again when it changes.
    """

    name: str | None = None
    everywhere: bool = False
    output: str = "text"
    watch: bool = False


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the explanation to `out`, or the problem to `err`. Returns the exit code."""
    return (_explain_all if options.name is None else _explain_one)(options, out, err)


@session.command("explain")
async def _explain_one(options: Options, out: TextIO, err: TextIO) -> int:
    name = session.jobset_name(options.name or "")
    if options.everywhere:
        raise session.UsageError("-A lists all JobSets: leave out the name, or write -n NAMESPACE")
    async with session.connect(options) as connection, session.explain_missing_jobset(connection, name):

        async def compute_page() -> _Page:
            now = wall_clock()
            explanation = explain(await gather(connection.client, connection.namespace, name, now))
            body = show.json_form(explanation, now)
            has_ended = explanation.state in ENDED
            if options.output != "text":
                return _Page(dump(body, options.output), body, has_ended)
            if width := width_of(out):
                lines = [*terminal_text(explanation, now, width, color=has_color(out))]
            else:
                lines = [*map(printable, show.text_lines(explanation, now))]
            return _Page("".join(f"{line}\n" for line in lines), body, has_ended)

        await _write_pages(options, compute_page, out, err)
    return session.DONE


@session.command("explain", verbs="list")
async def _explain_all(options: Options, out: TextIO, err: TextIO) -> int:
    async with session.connect(options) as connection:

        async def compute_page() -> _Page:
            jobsets = await explain_all(connection.client, None if options.everywhere else connection.namespace)
            if not (jobsets.bodies or options.everywhere):
                await session.refuse_missing_namespace(connection)
            body = {"items": jobsets.bodies}
            text = note = ""
            if options.output != "text":
                text = dump(body, options.output)
            elif jobsets.bodies:
                text = "".join(jobsets.lines(with_namespaces=options.everywhere, width=width_of(out)))
            elif options.everywhere:
                note = "there are no JobSets in any namespace\n"
            else:
                note = f"there are no JobSets in namespace {connection.namespace}: -A looks in all\n"
            if jobsets.has_more:
                note = f"there are more: only the first {MAX_JOBSETS} are shown; -n NAMESPACE or a name shows others\n"
            return _Page(text, body, note=note)

        await _write_pages(options, compute_page, out, err)
    return session.DONE


@dataclass(frozen=True, slots=True)
class _Page:
    """One version of the output: its text, its content as JSON, and a note for standard error."""

    text: str
    body: dict[str, Any]
    has_ended: bool = False
    note: str = ""


async def _write_pages(
    options: Options, compute_page: Callable[[], Awaitable[_Page]], out: TextIO, err: TextIO
) -> None:
    """Write a page. With `--watch`, write the page again when its content changes, until the JobSet has ended."""
    last_content = ""
    while True:
        current = await compute_page()
        content = _TIMES_AND_AGES.sub("", json.dumps(current.body))
        if content != last_content:
            out.write(f"\n{current.text}" if last_content and current.text else current.text)
            out.flush()
            err.write(current.note)
        if current.has_ended or not options.watch:
            return
        last_content = content
        await asyncio.sleep(UPDATE_PERIOD)
