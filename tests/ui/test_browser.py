"""A real browser on a page whose texts a stranger has written."""

from pathlib import Path

import msgspec
import pytest

from api.gang_status import StoredGroup
from cli.ui.run import LIMITS
from httpserver.address import bind
from httpserver.server import Server
from tests.support.browser import browser_tab
from tests.support.explain.objects import NOW
from tests.support.objects.jobsets import rjob
from tests.support.objects.page_rows import a_job, a_node, a_pod, a_set, counts
from tests.support.serving import LOCAL, serving
from ui.board import Board
from ui.guard import Guard
from ui.server import Pages
from ui.views import detail, row

HTML = "<img src=x onerror=alert(1)><script>alert(2)</script>"
KEY = ("default", "train")


def hostile_set():
    worker = rjob(HTML)
    worker["template"]["metadata"] = {"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": HTML}}
    failed = {"attempt": 0, "time": "2026-11-21T14:10:00Z", "message": HTML, "failedJob": f"{HTML}j", "pod": HTML}
    return a_set(
        worker,
        currentStage=HTML,
        restarts=1,
        executionAttempts=1,
        attemptHistory=[failed],
        replicatedJobsStatus=[counts(HTML, failed=1)],
        conditions=[{"type": "Odd", "status": "True", "reason": "R", "message": HTML}],
    )


class Hostile:
    """A set that is made of markup."""

    def __init__(self) -> None:
        self.js = hostile_set()
        self.group = msgspec.convert({"metadata": {"name": HTML}}, StoredGroup)

    def has_jobset(self, _key) -> bool:
        return True

    def detail(self, _key):
        nodes, pods = [a_node("n", **{HTML: HTML})], [a_pod(HTML, "n"), a_pod(HTML, jobset=HTML)]
        return row(self.js, NOW) | detail(self.js, jobs=[a_job()], pods=pods, nodes=nodes, groups=[self.group])

    def topology_map(self, topology):
        drawn = self.detail(KEY)["maps"][0]
        return {"topologies": [HTML], "map": drawn}

    async def explain(self, _key):
        finding = {
            "level": "fault",
            "cause": "c",
            "what": HTML,
            "since": "",
            "remedy": HTML,
            "because": [],
            "commands": [HTML],
        }
        return {**finding, "because": [finding], "newJobSet": HTML, "notLookedAt": [HTML]}


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_markup_of_a_stranger_is_text_and_no_policy_is_broken(tmp_path: Path):
    """Needs chromium on PATH."""
    board, shown = Board("e"), Hostile()
    board.touch(KEY)
    board.note([HTML])
    board.publish(lambda _: row(shown.js, NOW))
    pages = Pages(board, shown, shown.explain)
    server = Server(Guard(pages.app()), bind(LOCAL, "test"), limits=LIMITS)
    async with serving(server) as port, browser_tab(tmp_path) as tab:
        base = f"http://127.0.0.1:{port}"
        for place in ("/", "/#/set/default/train", "/#/map", "/#/set/%zz/x"):
            await tab.open(base + place)
            await tab.wait_for("live", HTML)
            if "set/default" in place:
                await tab.wait_for(
                    "Attempt 0",
                    f"To fix: {HTML}",
                    f"A new JobSet: {HTML}",
                    f"Not looked at: {HTML}",
                    f"job {HTML}j",
                    f"{HTML} Copy",
                )
            assert await tab.evaluate("document.querySelectorAll('img, body script, iframe').length") == 0
        refused = await tab.evaluate(
            "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'made' } catch { return 'refused' } })()"
        )
        assert refused == "refused"
        pages.close()
    assert [text for text in tab.complaints if "TrustedHTML" not in text] == []
