"""Words that readers stumble over stay out of code and pages; docs/glossary.md has the terms to use instead."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages.files import ROOT, texts

pytestmark = pytest.mark.no_cover  # reads the sources, and runs none of them

# The two pages that name the words in order to replace them.
EXEMPT = {Path(__file__), ROOT / "docs/glossary.md", ROOT / "CHANGELOG.md"}

INSTEAD = {
    r"anew": "again, created again",
    r"culprits?": "failed container, decisive pod",
    r"evidence": "failed pods",
    r"lingering": "leftover",
    r"mend(s|ed|ing)?": "fix, correct, repair",
    r"needless": "unnecessary",
    r"(pods|groups) of before": "of the earlier attempt",
    r"on (its|their) way out": "being deleted",
    r"patience": "name what is timed: LIST_TIMEOUT, REPORT_AFTER",
    r"rooms": "packages",
    r"un(told|heard)": "not reported",
    r"ways?[ _]out": "fix",
    r"WORTH_IT": "name the limit",
}


UNWANTED = re.compile(rf"(?<![a-zA-Z])(?:{'|'.join(INSTEAD)})(?![a-zA-Z])", re.IGNORECASE)


def unwanted(text: str) -> Iterator[tuple[str, str]]:
    """Words that are not to be used, with the terms to use instead. Parts of snake_case names count as words."""
    for found in UNWANTED.finditer(text):
        yield (
            found[0],
            next(instead for word, instead in INSTEAD.items() if re.fullmatch(word, found[0], re.IGNORECASE)),
        )


def test_code_and_pages_use_the_terms_of_the_glossary():
    found = {
        f"{path.relative_to(ROOT)}: {word!r}: use {instead}"
        for path in texts()
        if path not in EXEMPT
        for word, instead in unwanted(f"{path.relative_to(ROOT)}\n{path.read_text(encoding='utf-8')}")
    }
    assert found == set()
