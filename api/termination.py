"""The termination messages of containers. Pure."""

from typing import Final

MAX_BYTES: Final = 1024
"""At most this many bytes of a message are kept."""


def end_of_message(message: str) -> str:
    """The last `MAX_BYTES` of a termination message, without control characters except line breaks."""
    if not message:
        return ""
    end = message[-MAX_BYTES:].replace("\t", " ")
    text = "".join(char if char.isprintable() or char == "\n" else "" for char in end)
    return text.encode()[-MAX_BYTES:].decode(errors="ignore").strip()
