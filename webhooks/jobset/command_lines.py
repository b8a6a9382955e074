"""Splits a command line into the list of texts that a container needs. Pure."""

import re
import shlex
from collections.abc import Sequence

MAX_COMMAND_LENGTH = 1000
"""The most characters of a command line that is parsed."""
_REFERENCE = re.compile(r"\$\([A-Za-z_][A-Za-z0-9_.-]*\)")
"""`$(NAME)`, which Kubernetes itself replaces."""
_SINGLE_QUOTED = re.compile(r"'[^']*'")
_DOUBLE_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SHELL_EXPANSION = re.compile(r"[$`]")
"""Characters that a shell replaces, between double quotes too."""
_SHELL_OPERATOR = re.compile(r"[|&;<>()*~\n]|^\s*\w+=")
"""Operators of a shell outside quotes."""


def list_items(field: str, text: str) -> Sequence[str]:
    """The items of a list for `field`: for `command` and `args` the words, or a shell if it is needed; else the text.

    Raises ValueError for a text that is too long, or has a quote that does not end.
    """
    if len(text) > MAX_COMMAND_LENGTH:
        raise ValueError("too long to take apart")
    if field not in {"command", "args"}:
        return [text]
    if _needs_shell(text):
        return ["sh", "-c", text] if field == "command" else [text]
    return shlex.split(text) or [text]


def _needs_shell(text: str) -> bool:
    unquoted_text = _SINGLE_QUOTED.sub("", _REFERENCE.sub("", text.strip()))
    return bool(_SHELL_EXPANSION.search(unquoted_text) or _SHELL_OPERATOR.search(_DOUBLE_QUOTED.sub("", unquoted_text)))
