"""Splits a command line into the list of texts that a container needs. Pure."""

import re
import shlex
from collections.abc import Sequence

LONGEST_COMMAND = 1000
"""Characters of a command line that are parsed."""
_REFERENCE = re.compile(r"\$\([A-Za-z_][A-Za-z0-9_.-]*\)")
"""`$(NAME)`, which Kubernetes itself replaces."""
_IN_SINGLE = re.compile(r"'[^']*'")
_IN_DOUBLE = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_REPLACED = re.compile(r"[$`]")
"""Characters that a shell replaces, between double quotes too."""
_OPERATOR = re.compile(r"[|&;<>()*~\n]|^\s*\w+=")
"""Operators of a shell outside quotes."""


def as_list(field: str, text: str) -> Sequence[str]:
    """The items to write for `field`: for `command` and `args` the words, or a shell if it is needed; else the text.

    Raises ValueError for a text that is too long, or has a quote that does not end.
    """
    if len(text) > LONGEST_COMMAND:
        raise ValueError("too long to take apart")
    if field not in {"command", "args"}:
        return [text]
    if _needs_shell(text):
        return ["sh", "-c", text] if field == "command" else [text]
    return shlex.split(text) or [text]


def _needs_shell(text: str) -> bool:
    outside = _IN_SINGLE.sub("", _REFERENCE.sub("", text.strip()))
    return bool(_REPLACED.search(outside) or _OPERATOR.search(_IN_DOUBLE.sub("", outside)))
