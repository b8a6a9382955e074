"""docs/reference/defects.md names a test, or a reason, for every defect and every rule of clients."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "defects.md"


class TestPage:
    """docs/reference/defects.md says which test holds what."""

    TEXT = PAGE.read_text(encoding="utf-8")

    @classmethod
    def section(cls, title: str) -> str:
        return cls.TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]

    @classmethod
    def rows(cls, title: str) -> list[list[str]]:
        lines = [line for line in cls.section(title).splitlines() if line.startswith("|")]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]

    @pytest.mark.parametrize(("title", "last"), [("Defects", 37), ("Client contracts", 16)])
    def test_no_number_is_missing(self, title, last):
        assert [int(row[0]) for row in self.rows(title)] == list(range(1, last + 1))

    def test_a_row_without_a_test_says_why(self):
        for title in ("Defects", "Client contracts", "Sequences of clients"):
            for row in self.rows(title):
                assert "`" in row[-1] or row[2].startswith("cannot occur: "), row

    def test_every_test_of_the_page_exists(self):
        short = dict(re.findall(r"`(\w+)`\s+(?:stands\s+)?for\s+`(tests/[\w/]+\.py)`", self.TEXT))
        assert len(short) == 11
        named = re.findall(r"`([\w/.]+)::(\w+)`", self.TEXT)
        assert len(named) > 60
        for where, name in named:
            text = (ROOT / short.get(where, where)).read_text(encoding="utf-8")
            assert re.search(rf"^ *(async )?def {name}\(", text, re.MULTILINE), f"{where}::{name}"

    def test_every_test_that_bears_a_number_is_on_the_page(self):
        found = {
            name
            for path in (ROOT / "tests").rglob("test_*.py")
            for name in re.findall(r"def (test_(?:defect|contract)_\d\d_\w+)", path.read_text(encoding="utf-8"))
        }
        assert {name for name in found if f"::{name}`" not in self.TEXT} == set()
        bare = [name for name in found if name.startswith("test_defect")]
        assert len(bare) > 30
