"""The files of the repository that people write, and the parts of its pages."""

import os
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
SUFFIXES = {".py", ".md", ".yaml", ".toml", ".sh"}
GENERATED = {"build", "dist", "__pycache__"}
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
"""A block: its indentation, its language and its text. Blocks are found in their order: none begins where one ends."""
COMMENT = re.compile(r"(^|\s+)#\s.*$")
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


@dataclass(frozen=True, slots=True)
class Command:
    """What a reader copies from a page into a shell, and what the page shows that it prints ("" for nothing)."""

    page: str
    text: str
    shown: str = ""


def commands() -> list[Command]:
    """Every command of the pages. A block `sh` has commands and comments, a block `console` `$ ` before each command."""
    found = []
    for page in pages():
        for _, language, block in FENCE.findall(page.read_text(encoding="utf-8")):
            name = str(page.relative_to(ROOT))
            if language == "sh":
                found += [Command(name, text) for text in statements(textwrap.dedent(block))]
            elif language == "console":
                parts = (part.partition("\n") for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:])
                found += [Command(name, *statements(first), shown) for first, _, shown in parts]
    return found


def pages() -> list[Path]:
    """All pages, in the order of their names."""
    return sorted(path for path in texts() if path.suffix == ".md")


def statements(block: str) -> list[str]:
    """The commands of a script, each on one line but for here-documents, loops and lists; without comments."""
    found: list[str] = []
    text = ""
    for line in block.splitlines():
        text += f"\n{line}" if text else COMMENT.sub("", line)
        text = re.sub(r"\\\n\s*", "", text)
        if text and not _goes_on(text):
            found.append(text)
            text = ""
    return found


def _goes_on(text: str) -> bool:
    """Whether the shell would wait for another line."""
    document = re.search(r"<<(\w+)", text)
    return (
        text.endswith("\\")
        or text.count("(") > text.count(")")
        or (text.startswith("until ") and not re.search(r"^do .*done", text, re.MULTILINE))
        or (document is not None and not text.endswith(f"\n{document[1]}"))
    )


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
