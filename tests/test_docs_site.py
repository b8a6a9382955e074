"""The documentation as a site: every page has its place, every link leads somewhere, nothing comes from elsewhere."""

import json
import re
from pathlib import Path

import pytest

from app import version
from dev.hack import docs_site
from dev.hack.docs_site import SiteError, build, named_pages, site_config

NEW = "docs/new"
SEARCHED = {
    "pytorchjob": "docs/migrate.html", "mpijob": "docs/migrate.html", "migrate": "docs/migrate.html",
    "jupyter": "docs/python-client.html", "argo cd": "docs/gitops.html", "flux": "docs/gitops.html",
    "kyverno": "docs/policy/from-kyverno.html", "kopf": "docs/controller-authors.html", "checkpoint": "docs/checkpoints.html",
}  # fmt: skip
"""What people search for, and the page that answers."""


def test_the_site_is_made_and_finds_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "OWNER/jobset")
    first = build(tmp_path)
    page = (first.parent / "docs/cli.html").read_text(encoding="utf-8")
    assert f"Version {version.current_version()}" in page
    assert '<a href="https://github.com/OWNER/jobset">' in page
    assert 'href="../site.css"' in page
    assert (first.parent / "site.css").is_file()
    found = json.loads((first.parent / "search.json").read_text(encoding="utf-8"))
    places = {item["location"].partition("#")[0] for item in found["items"]}
    assert {"index.html", "docs/cli.html", "docs/policy/max-totals.html", "examples/gangs/index.html"} <= places
    assert (first.parent / "examples/watchdog.yaml").is_file()
    for word, page in SEARCHED.items():
        texts = [f"{item['title']} {item['text']}" for item in found["items"] if item["location"].startswith(page)]
        assert any(word in text.lower() for text in texts), f"{word} is not on {page}"
    loaded = re.findall(
        r"""<(?:script|link|img)[^>]*(?:src|href)=["']?(https?:[^"' >]*)""", first.read_text(encoding="utf-8")
    )
    assert loaded == []


def test_a_dead_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def copy(target: Path) -> list[str]:
        """Pages without text, as a dead link in one of them is enough."""
        shown = docs_site_copy(target)
        for page in shown:
            (target / page).write_text("# A page\n", encoding="utf-8")
        (target / "docs/cli.md").write_text("# A page\n\n[there](nowhere.md)\n", encoding="utf-8")
        return shown

    docs_site_copy = docs_site.copy_files
    monkeypatch.setattr(docs_site, "copy_files", copy)
    with pytest.raises(SiteError, match=r"(?s)docs/cli\.md:\d+.*nowhere\.md"):
        build(tmp_path)


def test_a_page_without_a_place_is_named():
    with pytest.raises(SiteError, match=rf"add them to nav in dev/hack/site\.yml: {NEW}\.md"):
        site_config([*docs_site.pages(), "examples/index.md", f"{NEW}.md"])


def test_a_place_without_a_page_is_named():
    with pytest.raises(SiteError, match=r"not there: docs/cli\.md"):
        site_config([*(page for page in docs_site.pages() if page != "docs/cli.md"), "examples/index.md"])


def test_parts_of_nav_are_read_whatever_their_depth():
    assert list(named_pages(["a.md", {"B": ["b.md", {"C": "c.md"}]}])) == ["a.md", "b.md", "c.md"]
