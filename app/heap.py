"""Keeps the memory of a long-lived process small after bursts: heaps of C and Python, and loaded libraries."""

import asyncio
import ctypes
import gc
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

LARGE_BLOCK_BYTES = 128 * 1024
"""Blocks of this many bytes or more are mapped alone, and return to the system as soon as they are freed."""

CYCLE_SEARCH_THRESHOLD = 5_000
"""New objects after which Python looks for cycles among them. With the default of 700, the search takes a tenth of the
time of a reconcile and finds hardly any cycles."""

QUIET_SECONDS = 3.0
"""Time without a request after which a burst is over."""

_M_MMAP_THRESHOLD = -3
_MADV_DONTNEED = 4


def keep_large_blocks_apart() -> None:
    """Have glibc map blocks of `LARGE_BLOCK_BYTES` bytes apart from the heap. Call it before connections are made.

    Does nothing with other C libraries. glibc starts at this limit, but raises it when large blocks are freed. Every
    TLS connection has a buffer of 256 KiB and uses little of it, so a burst of connections would fragment the heap.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def freeze() -> None:
    """Exclude all current objects from garbage collection, which would stop every request for tens of milliseconds.

    Frozen objects are still freed as soon as nothing refers to them.
    """
    gc.set_threshold(CYCLE_SEARCH_THRESHOLD)
    gc.collect()
    gc.freeze()
    return_free_pages()


def return_free_pages() -> None:
    """Have glibc return free pages to the system, such as the pages of a burst of connections."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


async def return_pages_after_bursts(requests: Callable[[], int], *, every: float = QUIET_SECONDS) -> None:
    """Return free memory to the system once after each burst. `requests()` is the number of requests so far."""
    last_requests = handled_requests = requests()
    while True:
        await asyncio.sleep(every)
        if (current_requests := requests()) == last_requests != handled_requests:
            await asyncio.to_thread(return_free_pages)  # takes up to 25 ms, without the interpreter's lock
            handled_requests = current_requests
        last_requests = current_requests


def unmap_libraries() -> None:
    """Unmap the pages of libraries, since most of these pages are needed only while modules are imported.

    The kernel maps a page again when it is used, without reading the file while the file is in its cache. Call this
    function before threads start, which may load libraries.
    """
    if sys.platform == "linux" and (advise := getattr(ctypes.CDLL(None), "madvise", None)):
        for start, end in unchanged_files(Path("/proc/self/smaps").read_text(encoding="utf-8")):
            advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


def unchanged_files(smaps: str) -> Iterator[tuple[int, int]]:
    """Address ranges (start, end) of files that are mapped read-only and that this process has not changed.

    `smaps` is the content of /proc/self/smaps.
    """
    for mapping in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps, flags=re.MULTILINE):
        address_range = re.match(r"([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ [1-9]", mapping)
        if address_range and {"Anonymous: 0 kB", "Swap: 0 kB"} <= {
            " ".join(line.split()) for line in mapping.splitlines()
        }:
            yield int(address_range[1], 16), int(address_range[2], 16)
