"""The memory of a process that lives long and has bursts: the heaps of C and of Python, and loaded libraries."""

import asyncio
import ctypes
import gc
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

LARGE = 128 * 1024
"""Blocks of this many bytes or more are mapped alone, and return to the system as soon as they are freed."""

YOUNG = 5_000
"""New objects after which Python looks for cycles among them. The default of 700 takes a tenth of the time of a
reconcile, and finds hardly any."""

QUIET_SECONDS = 3.0
"""Time without a request after which a burst is over."""

_M_MMAP_THRESHOLD = -3
_MADV_DONTNEED = 4


def keep_large_blocks_apart() -> None:
    """Hold glibc to `LARGE`; call it before connections are made.

    Does nothing with other C libraries. glibc starts at this limit, but raises it when large blocks are freed. Every
    TLS connection has a buffer of 256 KiB and uses little of it: on the heap, a burst of connections would fragment it.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_M_MMAP_THRESHOLD, LARGE)


def freeze() -> None:
    """Exclude all current objects from garbage collection, which would stop every request for tens of milliseconds.

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
    """Give back free memory once after each burst. `requests`: how many have come so far."""
    seen = done = requests()
    while True:
        await asyncio.sleep(every)
        if (now := requests()) == seen != done:
            await asyncio.to_thread(return_free_pages)  # it takes up to 25 ms, without the interpreter's lock
            done = now
        seen = now


def unmap_libraries() -> None:
    """Unmap the pages of libraries: most are needed only while modules are imported.

    The kernel maps a page again when it is used, without reading the file as long as that is in its cache. Call it
    before there are threads, which may load libraries.
    """
    if sys.platform == "linux" and (advise := getattr(ctypes.CDLL(None), "madvise", None)):
        for start, end in unchanged_files(Path("/proc/self/smaps").read_text(encoding="utf-8")):
            advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


def unchanged_files(smaps: str) -> Iterator[tuple[int, int]]:
    """Address ranges of files that are mapped read-only and whose pages this process has not changed."""
    for mapping in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps, flags=re.MULTILINE):
        found = re.match(r"([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ [1-9]", mapping)
        if found and {"Anonymous: 0 kB", "Swap: 0 kB"} <= {" ".join(line.split()) for line in mapping.splitlines()}:
            yield int(found[1], 16), int(found[2], 16)
