"""The files of the repository that people write, and the parts of its pages."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUFFIXES = {".py", ".md", ".yaml", ".toml", ".sh"}
GENERATED = {"build", "dist", "__pycache__"}
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```(?:bash|sh|console)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
ENDS = {"|", ">", "<", "&&", ";"}
"""Words of a shell after which something else begins."""
YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def texts() -> list[Path]:
    """Code, pages and manifests; not what is generated, nor hidden folders."""
    found = []
    for folder, names, files in os.walk(ROOT):
        names[:] = [name for name in names if not name.startswith(".") and name not in GENERATED]
        found += [Path(folder, file) for file in files if Path(file).suffix in SUFFIXES or file == "Makefile"]
    return found


def commands() -> list[str]:
    """The lines that a reader may copy into a shell, those that go on in the next one as one."""
    pages = [path.read_text(encoding="utf-8") for path in texts() if path.suffix == ".md"]
    blocks = [block.replace("\\\n", " ") for page in pages for block in SHELL.findall(page)]
    return [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]


def yaml_blocks(page: Path) -> list[str]:
    """The pieces of YAML on a page."""
    return YAML.findall(page.read_text(encoding="utf-8"))


def table(page: Path, heading: str) -> list[dict[str, str]]:
    """The rows of the first table under a heading: column -> cell."""
    section = page.read_text(encoding="utf-8").partition(f"# {heading}\n")[2]
    assert section, f"{page.name} has no heading {heading!r}"
    section = re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(head, row, strict=True)) for row in rows]
