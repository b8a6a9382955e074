"""The health checks of docs/gitops.md, judged by engines of Lua and CEL for each state of a JobSet."""

import re
from pathlib import Path
from typing import Any

import celpy
import msgspec
import pytest
import yaml
from lupa import lua51

from api import keys
from tests.support.model.lives import started, suspend
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

PAGE = (Path(__file__).parents[2] / "docs/gitops.md").read_text()
TABLE = {
    state: {"argo": argo, "flux": flux}
    for state, argo, flux, _ in re.findall(r"^\| (\w[^|]*) \| (\w+) \| (\w+) \| (\w+) \|$", PAGE, re.MULTILINE)
}
BLOCKS = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]
[LUA] = [text for block in BLOCKS for text in block.get("data", {}).values()]
[CEL] = [check for block in BLOCKS for check in block.get("spec", {}).get("healthCheckExprs", ())]
"""What the page gives to Argo CD and to Flux."""


def world(state: str) -> World:
    """A set of two Jobs in this state."""
    two = rjob("workers", 2)
    if state in {"stored, without a status yet", "created"}:
        new = World(jobset(two))
        if state == "created":
            new.settle()
        return new
    made = started(two, failurePolicy={"maxRestarts": 1} if state == "restarting" else None)
    if state == "suspended":
        suspend(made)
    elif state == "completed":
        made.finish("js-workers-0")
        made.finish("js-workers-1")
    elif state in {"restarting", "failed"}:
        made.fail("js-workers-0")
    made.settle()
    return made


def stored(state: str) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(world(state).js)
    if state == "being deleted":
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return body


def argo(body: dict[str, Any]) -> str:
    """The health that the script gives, called as Argo CD does: with the object as `obj`, in Lua 5.1."""
    runtime = lua51.LuaRuntime(unpack_returned_tuples=True)
    runtime.globals()["obj"] = runtime.table_from(body, recursive=True)
    return str(runtime.execute(LUA)["status"])


def flux(body: dict[str, Any]) -> str:
    """The health that the expressions give, asked in the order of Flux: its variables are the object's own fields."""
    if "status" not in body:
        return "Unknown"  # Flux's library knows no such variable; this one takes it for a field that is absent
    environment = celpy.Environment()
    for status in ("failed", "current"):
        program = environment.program(environment.compile(CEL[status]))
        if program.evaluate(celpy.json_to_cel(body)):
            return status.capitalize()
    return "InProgress"


def test_the_states_of_a_set_are_in_the_table():
    assert len(TABLE) == 8
    assert world("restarting").condition(keys.RESTARTING)
    assert world("suspended").condition(keys.SUSPENDED)
    assert [world(state).status.terminal_state for state in ("completed", "failed")] == [keys.COMPLETED, keys.FAILED]
    assert "status" not in stored("stored, without a status yet")


@pytest.mark.parametrize("state", TABLE)
def test_each_tool_says_what_the_table_says(state: str):
    body = stored(state)
    assert {"argo": argo(body), "flux": flux(body)} == TABLE[state]
