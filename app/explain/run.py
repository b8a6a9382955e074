"""One run of `jobset explain`: connect, read, decide, write. The only place that knows all of them."""

import json
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO

import yaml

from app import session
from app.check.findings import printable
from app.explain import show
from app.explain.gather import gather
from app.explain.listing import MOST, listing
from app.explain.reasons import explain
from kube.clock import now as wall_clock


@dataclass(frozen=True, slots=True)
class Options:
    """What to explain and how to say it. Empty: the context's namespace, the usual kubeconfig, its current context.

    Without a name: all JobSets of the namespace, or of all namespaces (`everywhere`).
    """

    name: str | None = None
    namespace: str = ""
    everywhere: bool = False
    output: str = "text"
    kubeconfig: str = ""
    context: str = ""


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the explanation to `out` or the problem to `err`; gives the exit code."""
    if options.name is None:
        return session.run("explain", partial(_all, options, out, err), err, right="list")
    return session.run("explain", partial(_one, options, options.name, out), err)


async def _one(options: Options, given: str, out: TextIO) -> int:
    name, now = session.named(given), wall_clock()
    if options.everywhere:
        raise session.UsageError("-A lists all JobSets: leave out the name, or write -n NAMESPACE")
    async with _connected(options) as to, session.naming(to, name):
        explanation = explain(await gather(to.client, to.namespace, name, now))
    if options.output == "text":
        out.writelines(f"{printable(line)}\n" for line in show.text(explanation, now))
    else:
        _dump(show.json_form(explanation, now), options.output, out)
    return session.DONE


async def _all(options: Options, out: TextIO, err: TextIO) -> int:
    async with _connected(options) as to, session.naming(to, ""):
        found = await listing(to.client, None if options.everywhere else to.namespace)
    if options.output != "text":
        _dump({"items": found.bodies}, options.output, out)
    elif found.bodies:
        found.write(out, namespaces=options.everywhere)
    else:
        where = "in any namespace" if options.everywhere else f"in namespace {to.namespace}: -A looks in all"
        err.write(f"there are no JobSets {where}\n")
    if found.left_out:
        err.write(f"there are more: only the first {MOST} are shown; -n NAMESPACE or a name shows others\n")
    return session.DONE


def _connected(options: Options) -> AbstractAsyncContextManager[session.Session]:
    return session.connected(kubeconfig=options.kubeconfig, context=options.context, namespace=options.namespace)


def _dump(body: dict[str, Any], output: str, out: TextIO) -> None:
    if output == "json":
        json.dump(body, out, indent=2)
        out.write("\n")
    else:
        yaml.safe_dump(body, out, sort_keys=False, allow_unicode=True, width=2**31 - 1)
