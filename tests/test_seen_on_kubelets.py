"""The page that says what was seen on a kubelet names tests on real nodes, and every file of them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
REAL = ROOT / "tests/e2e/real"
NAMED = re.findall(
    r"`(test_\w+\.py)(?:::(test_\w+))?`", (ROOT / "docs/seen-on-kubelets.md").read_text(encoding="utf-8")
)


def test_each_line_names_a_test_that_exists():
    missing = [name for file, name in NAMED if f"def {name}(" not in (REAL / file).read_text() and name]
    assert missing == []


def test_each_file_of_tests_on_real_nodes_has_a_line():
    assert {file.name for file in REAL.glob("test_*.py")} == {file for file, _ in NAMED}
