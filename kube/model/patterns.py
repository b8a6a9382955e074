r"""Patterns of failure policy rules: RE2, searched for anywhere in a text, as in Go. Pure but for a cache.

Python's own `re` would interpret some patterns differently, and may take exponential time. The RE2 library accepts
`\C`, which Go refuses.
"""

import re
from functools import lru_cache

import re2

_ANY_BYTE = re.compile(r"(?<!\\)(\\\\)*\\C")

MAX_MEMORY = 512 * 1024
"""Bytes for one compiled pattern. With the library's own 8 MiB, 20 characters take 150 ms of the whole process."""


MAX_PATTERNS = 256
"""The most patterns of one failure policy that are compiled, and the size of the cache."""


@lru_cache(maxsize=MAX_PATTERNS)
def compile_pattern(pattern: str) -> "re2._Regexp | str":
    """The compiled pattern, or why it is invalid. An invalid pattern matches nothing."""
    if _ANY_BYTE.search(pattern):
        return r"invalid escape sequence: \C"
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "invalid pattern"
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    except UnicodeEncodeError:
        return "not valid Unicode"
