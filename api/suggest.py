"""Names that a mistyped one may have been meant for. Pure."""

import difflib
from collections.abc import Iterable
from itertools import islice

from api.field import quote, shortened

MAX_CANDIDATES = 100
"""Names that are compared: an answer has to be quick whatever is sent."""
_MAX_LISTED = 8
_MAX_NAME = 63


def did_you_mean(word: str, names: Iterable[str], *, what: str = "there are") -> str:
    """`did you mean "workers"? there are: "driver", "workers"`, or only the list where nothing is close.

    Empty when there are no names at all.
    """
    known = list(dict.fromkeys(name for name in islice(names, MAX_CANDIDATES) if name))
    if not known:
        return ""
    close = nearest(word, known)
    if close and len(known) == 1:
        return f"did you mean {quote(close)}?"
    listed = ", ".join(quote(shortened(name, _MAX_NAME)) for name in known[:_MAX_LISTED])
    rest = ", ..." if len(known) > _MAX_LISTED else ""
    guess = f"did you mean {quote(close)}? " if close else ""
    return f"{guess}{what}: {listed}{rest}"


def nearest(word: str, names: Iterable[str]) -> str:
    """The one name that is likely meant, whatever its case; empty when none is close."""
    folded = {name.lower(): name for name in reversed(list(islice(names, MAX_CANDIDATES)))}
    found = difflib.get_close_matches(shortened(word, _MAX_NAME).lower(), folded, n=1, cutoff=0.7)
    return folded[found[0]] if found else ""
