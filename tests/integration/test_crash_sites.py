"""The controller dies before or after each of its API writes, starts again, and ends where it would have ended.

The moments are found by the first, undisturbed run of each path, so a write that is added is tried without anybody
thinking of it. The next controller finds a plan that is half done, or has missed what happened meanwhile, or begins with
caches that are behind (`Pattern`). How many sites were found and tried of each is printed when the tests are over. By
default every sixteenth write is tried, with one kind of kill; the slow tests try each with every kind, and stale caches after
each.
"""

import asyncio
import contextlib
import itertools
import math
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from controllers.jobset import spare_pods
from controllers.planning.steps import give_places
from controllers.resources import JOBSETS
from dev.cluster.cluster import Cluster
from kube.client import Client
from kube.config import load
from kube.resources import JOBS, NAMESPACES
from kube.transport import HttpTransport
from tests.support.played.crash import run
from tests.support.played.crash_paths import PATHS
from tests.support.played.kills import Kill, Path, Pattern, Record, Site, When
from tests.support.played.namespace import differences, summary

AT_ONCE = 16
"""Runs side by side: most of a run is waiting, for watches and until counts are written."""

TRIES = 4
"""Plays of a path until the write of a site comes: two writes of counts are one where the machine is busy."""

BEHIND = tuple(
    Kill(When.AFTER, behind=behind, first=first.plural)
    for first, behind in zip(itertools.cycle((JOBS, JOBSETS)), (3, 8, 1, 3, 8, 1), strict=False)
)
"""How many writes the next controller has not seen, in turn, and what its watches show first: from the last write to a
whole restart."""

IN_TURN = Kill(When.BEFORE), Kill(When.AFTER, away=True), BEHIND[0], Kill(When.AFTER, away=True), BEHIND[1]
"""Before one write is mostly after the one before it: so the moments are tried with and without a long absence, and with
caches that are behind, in turn."""

Choice = Callable[[Record], list[Site]]


@contextlib.asynccontextmanager
async def connected(cluster: Cluster) -> AsyncIterator[HttpTransport]:
    """Connections that all runs of a test share."""
    transport = HttpTransport(await load(str(cluster.kubeconfig)), user_agent="jobset/crash", qps=1e5, burst=100_000)
    try:
        yield transport
    finally:
        await transport.close()


async def in_new_namespace(transport: HttpTransport, path: Path, site: Site | None = None) -> Record:
    name = f"crash-{uuid.uuid4().hex[:10]}"
    await Client(transport).create(NAMESPACES, {"metadata": {"name": name}})
    return await run(transport, name, path, site)


def faults(clean: Record, found: Record, pattern: Pattern) -> list[str]:
    """What is wrong about a run with a kill, beside the run without one.

    An end that a stale cache shows late is counted by the metrics of both controllers (docs/reference/metrics.md).
    """
    wrong = differences(clean.end, found.end)
    if not found.killed:
        wrong.append("the write never came, so nothing was killed")
    for what in clean.created.keys() | found.created.keys():
        if clean.created[what] != found.created[what]:
            wrong.append(f"created {found.created[what]} times instead of {clean.created[what]}: {what}")
    if len(found.writes) > 2 * len(clean.writes):
        wrong.append(f"{len(found.writes)} writes, more than twice the {len(clean.writes)} without a kill")
    if pattern is not Pattern.STALE and found.outcomes - clean.outcomes:
        wrong.append(f"ends counted twice: {dict(found.outcomes)}")
    return wrong


async def try_all(cluster: Cluster, path: Path, choose: Choice, note: Callable[[str, int], None]) -> None:
    """Play the path with a kill at each chosen site; `note` takes how many there were."""
    wrong: dict[str, list[str]] = {}
    tried: Counter[Pattern] = Counter()
    async with connected(cluster) as transport:
        clean = await in_new_namespace(transport, path)
        assert summary(clean.end) == path.ends, "without a kill"
        sites = choose(clean)
        slots = asyncio.Semaphore(AT_ONCE)

        async def attempt(site: Site) -> None:
            try:
                async with slots:
                    found = await in_new_namespace(transport, path, site)
                    for _ in range(TRIES - 1):
                        if not found.killed:
                            found = await in_new_namespace(transport, path, site)
                bad = faults(clean, found, site.kill.pattern)
                tried[site.kill.pattern] += found.killed
            except* Exception as failed:  # noqa: BLE001 - reported with the site's name; the other sites are tried
                bad = [repr(error) for error in failed.exceptions]
            if bad:
                wrong[str(site)] = bad

        async with asyncio.TaskGroup() as tasks:
            for site in sites:
                tasks.create_task(attempt(site))
    found = Counter(site.kill.pattern for site in sites)
    for pattern in Pattern:
        note(f"{pattern.value}: crash sites found", found[pattern])
        note(f"{pattern.value}: crash sites tried", tried[pattern])
    assert wrong == {}
    assert tried == found


@pytest.fixture(autouse=True)
def _a_place_is_taken_soon(monkeypatch: pytest.MonkeyPatch):
    """A path waits before each step until no timer is left; this one, of half a minute, changes nothing on any path."""
    for module in (give_places, spare_pods):
        monkeypatch.setattr(module, "PLACE_COOLDOWN", 3.0)


def every_sixteenth(clean: Record) -> list[Site]:
    return clean.sites_in_turn(IN_TURN)[::16]


BATCHES = math.ceil(len(PATHS) / AT_ONCE)
"""Of as many paths as are played side by side."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "paths",
    [PATHS[first::BATCHES] for first in range(BATCHES)],
    ids=lambda paths: ",".join(path.name for path in paths),
)
async def test_a_kill_at_every_sixteenth_write_changes_nothing_about_the_end(
    jobset_server: Cluster, paths: tuple[Path, ...], record_property
):
    """The way to the first step of a path is a path of its own, which has no steps."""
    noted: Counter[str] = Counter()

    async def try_path(path: Path) -> None:
        try:
            await try_all(jobset_server, path, every_sixteenth, lambda what, number: noted.update({what: number}))
        except BaseException as error:
            error.add_note(f"path: {path.name}")
            raise

    ends = await asyncio.gather(*map(try_path, paths), return_exceptions=True)
    for what, number in noted.items():
        record_property(what, number)
    wrong = [end for end in ends if end is not None]
    if wrong:
        raise BaseExceptionGroup("paths with a fault", wrong)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
async def test_any_kind_of_kill_at_any_write_changes_nothing_about_the_end(
    jobset_server: Cluster, path: Path, record_property
):
    await try_all(jobset_server, path, Record.all_sites, record_property)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
async def test_stale_caches_after_any_write_change_nothing_about_the_end(
    jobset_server: Cluster, path: Path, record_property
):
    await try_all(jobset_server, path, lambda clean: clean.sites_in_turn(BEHIND), record_property)
