"""One run of `jobset explain`: connect, read, decide, write."""

import asyncio
import io
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO

from cli import session
from cli.explain import show
from cli.explain.listing import MAX_JOBSETS, listing
from cli.explain.terminal import terminal_text
from cli.messages import colorful, printable
from cli.output import dump, width_of
from diagnose.gather import gather
from diagnose.reasons import explain
from diagnose.states import State
from kube.clock import now as wall_clock

ENDED = (State.COMPLETED, State.FAILED)
"""States after which nothing changes."""
EVERY = 2.0
"""Seconds between two updates of `--watch`."""
_AGES = re.compile(r'"time": "[^"]*"|\d+ (?:s|min|h|d)\b')
"""Texts that change between updates although the JobSet has not changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(session.Where):
    """What to explain and the form of the output.

    Without a name: all JobSets of the namespace, or of all (`everywhere`). `watch`: print it again when it changes.
    """

    name: str | None = None
    everywhere: bool = False
    output: str = "text"
    watch: bool = False


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the explanation to `out` or the problem to `err`; gives the exit code."""
    if options.name is None:
        work = partial(_explain_all, options, out, err)
        return session.run("explain", work, err, right="list", everywhere=options.everywhere)
    return session.run("explain", partial(_explain_one, options, options.name, out), err)


async def _explain_one(options: Options, name_or_path: str, out: TextIO) -> int:
    name = session.jobset_name(name_or_path)
    if options.everywhere:
        raise session.UsageError("-A lists all JobSets: leave out the name, or write -n NAMESPACE")
    async with session.connect_to(options) as to, session.naming(to, name):

        async def page() -> _Page:
            now = wall_clock()
            explanation = explain(await gather(to.client, to.namespace, name, now))
            body = show.json_form(explanation, now)
            ended = explanation.state in ENDED
            if options.output != "text":
                return _Page(dump(body, options.output), body, ended)
            if width := width_of(out):
                lines = [*terminal_text(explanation, now, width, color=colorful(out))]
            else:
                lines = [*map(printable, show.text(explanation, now))]
            return _Page("".join(f"{line}\n" for line in lines), body, ended)

        await _pages(options, page, out)
    return session.DONE


async def _explain_all(options: Options, out: TextIO, err: TextIO) -> int:
    async with session.connect_to(options) as to, session.naming(to, ""):

        async def page() -> _Page:
            found = await listing(to.client, None if options.everywhere else to.namespace)
            if not (found.bodies or options.everywhere) and (
                text := await session.no_namespace(to.client, to.namespace)
            ):
                raise session.UsageError(text)
            body = {"items": found.bodies}
            table = io.StringIO()
            if options.output != "text":
                table.write(dump(body, options.output))
            elif found.bodies:
                found.write(table, namespaces=options.everywhere, width=width_of(out))
            else:
                scope = "in any namespace" if options.everywhere else f"in namespace {to.namespace}: -A looks in all"
                err.write(f"there are no JobSets {scope}\n")
            if found.left_out:
                err.write(
                    f"there are more: only the first {MAX_JOBSETS} are shown; -n NAMESPACE or a name shows others\n"
                )
            return _Page(table.getvalue(), body, ended=False)

        await _pages(options, page, out)
    return session.DONE


@dataclass(frozen=True, slots=True)
class _Page:
    """The text, its JSON form, and whether it is final."""

    text: str
    body: dict[str, Any]
    ended: bool


async def _pages(options: Options, page: Callable[[], Awaitable[_Page]], out: TextIO) -> None:
    """Write a page. With `--watch` write it again when its content changes, until the set has ended."""
    last_text = ""
    while True:
        found_page = await page()
        content = _AGES.sub("", json.dumps(found_page.body))
        if content != last_text:
            out.write(f"\n{found_page.text}" if last_text and found_page.text else found_page.text)
            out.flush()
        if found_page.ended or not options.watch:
            return
        last_text = content
        await asyncio.sleep(EVERY)
