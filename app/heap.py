"""The heaps of C and of Python in a process that lives long and has bursts. Must not know what is allocated."""

import ctypes
import gc
import sys

LARGE = 128 * 1024
"""Bytes from which a block stands alone and goes back to the system as soon as it is freed."""

YOUNG = 5_000
"""New objects after which Python looks for cycles among them. With its own 700 that takes a tenth of the time of a
reconcile, and finds next to nothing."""

_M_MMAP_THRESHOLD = -3


def keep_large_blocks_apart() -> None:
    """Hold glibc to `LARGE`; call it before connections are made. Other C libraries are left alone.

    glibc starts there but raises the limit as large blocks come and go. Every TLS connection has a buffer of 256 KiB,
    of which it touches little: from the heap, a burst of them would touch all and leave it torn up.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_M_MMAP_THRESHOLD, LARGE)


def freeze() -> None:
    """Take what is there to stay out of garbage collection, which would stop every request for tens of milliseconds.

    Frozen objects are still freed as soon as nothing refers to them. glibc gives back the pages that are free.
    """
    gc.set_threshold(YOUNG)
    gc.collect()
    gc.freeze()
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
