"""The files of the page: nothing of a tenant becomes markup, and nothing is loaded from elsewhere."""

import re

import pytest

from ui.server import STATIC

FILES = sorted(STATIC.iterdir())
SCRIPT = (STATIC / "ui.js").read_text(encoding="utf-8")
PAGE = (STATIC / "index.html").read_text(encoding="utf-8")


def test_the_page_is_one_html_one_css_one_script_and_an_icon():
    assert [path.name for path in FILES] == ["icon.svg", "index.html", "ui.css", "ui.js"]


@pytest.mark.parametrize(
    "sink",
    ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "srcdoc", "import("],
)
def test_the_script_makes_no_markup_of_texts(sink):
    assert sink not in SCRIPT


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_loaded_from_elsewhere(path):
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"https?:|//\w+\.|@import|url\(", text) == []


def test_the_page_has_no_script_or_style_of_its_own():
    """The Content-Security-Policy would not let them run."""
    assert re.findall(r"<script(?! type=\"module\" src=)|<style|\sstyle=|\son\w+=", PAGE) == []


def test_every_element_that_the_script_asks_for_is_on_the_page():
    asked = set(re.findall(r"byId\('([\w-]+)'\)", SCRIPT)) - {"why"}
    assert asked - set(re.findall(r'id="([\w-]+)"', PAGE)) == set()
    assert len(asked) >= 8
    assert "id: 'why'" in SCRIPT
