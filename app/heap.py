"""The memory of a process that lives long and has bursts: the heaps of C and of Python, and loaded libraries.

Must not know what is allocated.
"""

import asyncio
import ctypes
import gc
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

LARGE = 128 * 1024
"""Bytes from which a block stands alone and goes back to the system as soon as it is freed."""

YOUNG = 5_000
"""New objects after which Python looks for cycles among them. With its own 700 that takes a tenth of the time of a
reconcile, and finds next to nothing."""

QUIET_SECONDS = 3.0
"""Time without a request after which a burst is over."""

_M_MMAP_THRESHOLD = -3
_MADV_DONTNEED = 4


def keep_large_blocks_apart() -> None:
    """Hold glibc to `LARGE`; call it before connections are made. Other C libraries are left alone.

    glibc starts there but raises the limit as large blocks come and go. Every TLS connection has a buffer of 256 KiB,
    of which it touches little: from the heap, a burst of them would touch all and leave it torn up.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_M_MMAP_THRESHOLD, LARGE)


def freeze() -> None:
    """Take what is there to stay out of garbage collection, which would stop every request for tens of milliseconds.

    Frozen objects are still freed as soon as nothing refers to them.
    """
    gc.set_threshold(YOUNG)
    gc.collect()
    gc.freeze()
    return_free_pages()


def return_free_pages() -> None:
    """Have glibc give back the pages that are free: after a burst those of its connections and requests, if any."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


async def return_pages_after_bursts(requests: Callable[[], int], *, every: float = QUIET_SECONDS) -> None:
    """Give back what each burst has used of memory, once. `requests`: how many have come so far."""
    seen = done = requests()
    while True:
        await asyncio.sleep(every)
        if (now := requests()) == seen != done:
            return_free_pages()
            done = now
        seen = now


def unmap_libraries() -> None:
    """Let go of the pages of libraries in memory: most are needed only while modules are imported.

    The kernel maps a page again when it is used, without reading the file as long as that is in its cache. Call it
    before there are threads, which may load libraries.
    """
    if sys.platform == "linux" and (advise := getattr(ctypes.CDLL(None), "madvise", None)):
        for start, end in unchanged_files(Path("/proc/self/smaps").read_text(encoding="utf-8")):
            advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


def unchanged_files(smaps: str) -> Iterator[tuple[int, int]]:
    """Address ranges of files that are mapped read-only, and of whose pages this process has changed none."""
    for mapping in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps, flags=re.MULTILINE):
        found = re.match(r"([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ [1-9]", mapping)
        if found and {"Anonymous: 0 kB", "Swap: 0 kB"} <= {" ".join(line.split()) for line in mapping.splitlines()}:
            yield int(found[1], 16), int(found[2], 16)
