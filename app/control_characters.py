"""Escapes text from outside that could move the cursor of a terminal, hide text, or reverse its direction. Pure."""

import re
from typing import Final

CONTROLS: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
"""C0 without tab and line feed, DEL, C1, Unicode's line separators, and characters that change the text's direction."""
CONTROL: Final = re.compile(f"[{CONTROLS}]")


def escape(text: str, keep: re.Pattern[str] = CONTROL) -> str:
    r"""The text with each control character written like `\u001b`. Longer matches of `keep` stay as they are."""
    return keep.sub(lambda found: found[0] if len(found[0]) > 1 else f"\\u{ord(found[0]):04x}", text)
