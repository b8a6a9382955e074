"""What a container says about its end. Pure."""

from typing import Final

MOST_BYTES: Final = 1024


def end_of_message(message: str) -> str:
    """The last bytes of a termination message, at most `MOST_BYTES`, without control characters but for line ends."""
    if not message:
        return ""
    end = message[-MOST_BYTES:].replace("\t", " ")
    text = "".join(char if char.isprintable() or char == "\n" else "" for char in end)
    return text.encode()[-MOST_BYTES:].decode(errors="ignore").strip()
