"""The messages on docs/troubleshooting.md and docs/certificates.md are those of the program.

What `...` stands for is left out.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
CERTIFICATES = (ROOT / "docs" / "certificates.md").read_text(encoding="utf-8")
OURS = ("## The manager", "## A set that does not run")
OUR_CODE = ("api", "app", "authoring", "certs", "cli", "controllers", "diagnose", "kube", "manifests", "ui", "webhooks")


def quoted(page: str, heading: str) -> list[str]:
    """What stands in backticks in the first column of the section's table."""
    section = page.split(f"{heading}\n")[1].split("\n## ", maxsplit=1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [text for row in rows for text in re.findall("`([^`]+)`", row.split(" | ")[0])]


def source() -> str:
    """All literals of the program as one text: adjacent ones joined, places in f-strings taken out."""
    files = [path.read_text(encoding="utf-8") for room in OUR_CODE for path in sorted((ROOT / room).rglob("*.py"))]
    joined = re.sub(r'"\s*\n\s*f?"', "", "\n".join(files))
    return joined.replace('\\"', '"')


SOURCE = source()
MESSAGES = [text for heading in OURS for text in quoted(PAGE, heading)] + quoted(CERTIFICATES, "## Troubleshooting")
NOT_OURS = {"spec.managedBy", "SchedulingGated"}


def pieces(message: str) -> list[str]:
    return [piece.strip(' ."') for piece in message.split("...") if len(piece.strip(' ."')) > 3]


def test_there_are_messages():
    assert len(MESSAGES) > 20


@pytest.mark.parametrize("message", [text for text in MESSAGES if text not in NOT_OURS])
def test_a_message_is_one_of_the_program(message: str):
    found = [SOURCE.find(piece) for piece in pieces(message)]
    assert found, message
    assert -1 not in found, [piece for piece, at in zip(pieces(message), found, strict=True) if at < 0]


def test_links_between_sections_lead_somewhere():
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line[3:].lower()).replace(" ", "-")
        for line in PAGE.splitlines()
        if line.startswith("## ")
    }
    assert set(re.findall(r"\]\(#([a-z-]+)\)", PAGE)) <= headings
