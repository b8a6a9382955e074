"""What a container says about its end. Pure."""

from typing import Final

MAX_BYTES: Final = 1024


def end_of_message(message: str) -> str:
    """The last bytes of a termination message, at most `MAX_BYTES`, without control characters but for line ends."""
    if not message:
        return ""
    end = message[-MAX_BYTES:].replace("\t", " ")
    text = "".join(char if char.isprintable() or char == "\n" else "" for char in end)
    return text.encode()[-MAX_BYTES:].decode(errors="ignore").strip()
