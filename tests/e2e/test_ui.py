"""`jobset ui` against a real cluster: by its data and its stream, and in a real browser."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dev.cluster.cluster import Cluster
from dev.local import free_port
from tests.support.browser import Tab, browser_tab
from tests.support.cluster.helm import page_rules
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import request, wait_for
from tests.support.explain.objects import RACK

JSON = dict[str, Any]
SHOTS = Path("build/ui")
"""Where the browser's pictures go, for a person to look at."""


class Page:
    """A page that is served for one namespace."""

    def __init__(self, base: str) -> None:
        self.base = base

    def get(self, path: str) -> JSON:
        with urllib.request.urlopen(f"{self.base}/{path}", timeout=30) as answer:  # noqa: S310 (http on loopback)
            body: JSON = json.load(answer)
            return body

    def events(self, stop: int) -> list[JSON]:
        """So many events of the stream, from its beginning."""
        found = []
        with urllib.request.urlopen(f"{self.base}/api/events", timeout=60) as stream:  # noqa: S310 (as above)
            for line in stream:
                if line.startswith(b"data: "):
                    found.append(json.loads(line.removeprefix(b"data: ")))
                    if len(found) == stop:
                        break
        return found

    def shown(self) -> set[tuple[str, str]]:
        """Namespace and name of each row."""
        return {(row["namespace"], row["name"]) for row in self.events(1)[0]["rows"]}

    def rows(self) -> dict[str, JSON]:
        (news,) = self.events(1)
        return {row["name"]: row for row in news["rows"]}


@pytest.fixture
def page(full_cluster: Cluster, sets: Sets) -> Iterator[Page]:
    with served(full_cluster.kubeconfig, f"namespace {sets.namespace}", "-n", sets.namespace) as found:
        yield found


@contextlib.contextmanager
def served(kubeconfig: Path, of: str, *args: str) -> Iterator[Page]:
    """`jobset ui` as a process of its own; it is ended by a signal, and must end well."""
    port = free_port()
    command = [sys.executable, "-m", "cli", "ui", *args, "--address", f"127.0.0.1:{port}"]
    process = subprocess.Popen(  # noqa: S603 (ourselves)
        [*command, "--kubeconfig", str(kubeconfig)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process, process.stdout:
        try:
            assert process.stdout.readline() == f"JobSets of {of}: http://127.0.0.1:{port}/ (Ctrl-C ends it)\n"
            yield Page(f"http://127.0.0.1:{port}")
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(30)
    assert code == 0


def exclusive(replicas: int) -> JSON:
    body = group(replicas=replicas, pods_per_job=2)
    body["template"]["metadata"] = {"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK}}
    return body


def test_the_data_and_the_stream_follow_the_cluster(sets: Sets, page: Page):
    assert page.rows() == {}
    sets.apply(manifest(exclusive(2), failurePolicy={"maxRestarts": 2}))
    sets.wait_ready(2)
    wait_for(lambda: page.rows().get("js", {}).get("state") == "Running", what="a row of the set that runs")

    path = f"api/sets/{sets.namespace}/js"
    wait_for(lambda: [d["jobs"] != [] for d in page.get(path)["maps"][0]["domains"]] == [True, True], what="the racks")
    shown = page.get(path)
    assert [(job["name"], job["state"], job["ready"]) for job in shown["jobList"]] == [
        ("js-workers-0", "Running", 2), ("js-workers-1", "Running", 2),
    ]  # fmt: skip
    assert {d["name"] for d in shown["maps"][0]["domains"]} == {"rack-0", "rack-1"}
    assert page.get(f"api/map?topology={RACK}")["map"]["domains"][0]["jobs"][0]["pods"] == 2
    assert page.get(f"{path}/explanation")["state"] == "runs"

    sets.end(sets.pods()[0], 7)
    wait_for(lambda: sets.status().get("restarts") == 1 and sets.counts()["ready"] == 2, timeout=60, what="a restart")
    wait_for(lambda: page.rows()["js"]["restarts"] == 1, what="the restart on the page")
    first, second = page.get(path)["timeline"]["attempts"]
    assert (first["outcome"], first["exitCode"], first["to"]) == ("Failed", 7, second["from"])
    wait_for(
        lambda: page.get(path)["timeline"]["attempts"][1]["outcome"] == "Running", what="the second attempt to run"
    )


def test_the_rights_that_the_chart_gives_it_are_enough(full_cluster: Cluster, sets: Sets):
    user, rbac = "page-of-the-chart", "/apis/rbac.authorization.k8s.io/v1"
    role = {"metadata": {"name": user}, "rules": page_rules()}
    subject = {"kind": "User", "name": user}
    bound = {"metadata": {"name": user}, "subjects": [subject], "roleRef": {"kind": "ClusterRole", "name": user}}
    assert request(full_cluster, "POST", f"{rbac}/clusterroles", role)[0] == 201
    assert request(full_cluster, "POST", f"{rbac}/clusterrolebindings", bound)[0] == 201
    claim = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "nothing"}}]}
    sets.apply(manifest(group(pod=claim)))
    sets.apply(manifest(group(pod={"nodeSelector": {"rack": "none"}}), name="nowhere"))
    try:
        with served(full_cluster.kubeconfig_for(user), "all namespaces", "-A") as found:
            rows = {(sets.namespace, "js"), (sets.namespace, "nowhere")}
            wait_for(lambda: rows <= found.shown(), timeout=60, what="the rows of both")
            for name, says in (
                ("js", "there is no PersistentVolumeClaim nothing"),
                ("nowhere", "no node has the label"),
            ):
                path = f"api/sets/{sets.namespace}/{name}/explanation"
                wait_for(lambda path=path, says=says: says in str(found.get(path)), timeout=60, what=says)  # type: ignore[misc]
                assert found.get(path)["notLookedAt"] == []
            assert found.events(1)[0]["notes"] == []
    finally:
        request(full_cluster, "DELETE", f"{rbac}/clusterrolebindings/{user}")
        request(full_cluster, "DELETE", f"{rbac}/clusterroles/{user}")


@contextlib.asynccontextmanager
async def opened(page: Page, folder: Path) -> AsyncIterator[Tab]:
    async with browser_tab(folder) as tab:
        await tab.look(1280, 900)
        await tab.open(page.base)
        await tab.wait_for("live")
        yield tab


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_browser_shows_sets_as_they_change(sets: Sets, page: Page, tmp_path: Path):
    """Needs chromium on PATH. Leaves its pictures in build/ui."""
    folded = await asyncio.to_thread(_a_set_that_waits, sets)
    async with opened(page, tmp_path / "browser") as tab:
        await tab.wait_for("js", "Waiting", "first", "Running", "1 of 2")
        await tab.open(f"{page.base}/#/set/{sets.namespace}/js")
        text = await tab.wait_for("waits for a rack of its own", "hold", "first-workers-0", "Attempt 0")
        assert "2 exclusive Jobs keep other pods of priority 0 out of their domains" in text
        assert "To fix: " in text
        await tab.screenshot(SHOTS / "waits.png")

        await tab.open(f"{page.base}/#/set/{sets.namespace}/first")
        await tab.wait_for("exit code 7", "rack-0", "rack-1", "first-workers-1", "ReplicatedJobs")
        for width in (1280, 400):
            for dark in (False, True):
                await tab.look(width, 900, dark=dark)
                await tab.screenshot(SHOTS / f"set-{width}-{'dark' if dark else 'light'}.png")
                assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), width

        await tab.look(1280, 900)
        await asyncio.to_thread(sets.patch, {"suspend": True}, "first")
        await tab.wait_for("Suspended")
        await tab.open(f"{page.base}/#/map/{quote(RACK)}")
        await tab.wait_for("rack-0", "rack-1", folded)
        await tab.screenshot(SHOTS / "map.png")
        await tab.open(f"{page.base}/#")
        await tab.look(400, 900)
        await tab.wait_for("js", "first", "1 of 2")
        await tab.screenshot(SHOTS / "list-400.png")
        assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert tab.complaints == []


def _a_set_that_waits(sets: Sets) -> str:
    """`first` holds both racks and has been restarted once; `js` waits for them. Gives the name of a Job that waits."""
    sets.apply(manifest(exclusive(2), name="first", failurePolicy={"maxRestarts": 2}))
    sets.wait_ready(2, name="first")
    sets.end(sets.pods(name="first")[0], 7)
    wait_for(lambda: sets.status("first").get("restarts") == 1, timeout=60, what="a restart")
    sets.wait_ready(2, name="first")
    sets.apply(manifest(exclusive(2), group("driver"), name="js"))
    sets.wait_explained("waits for a rack of its own")
    return "js-workers-0"
