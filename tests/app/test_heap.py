"""What a burst leaves behind, in a process of its own: memory that was freed is memory that the system has again."""

import subprocess
import sys

BURST = """
import ctypes, re
from pathlib import Path
from app.heap import LARGE, keep_large_blocks_apart

keep_large_blocks_apart()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def resident() -> int:
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024


libc.free(libc.malloc(16 * LARGE))  # what makes glibc raise its limit
before = resident()
large = []
for _ in range(128):
    large.append(libc.malloc(2 * LARGE))
    ctypes.memset(large[-1], 1, 2 * LARGE)
    libc.malloc(64)  # keeps the heap from shrinking, if that is where the large block lies
for block in large:
    libc.free(block)
print(resident() - before)
"""


def test_large_blocks_go_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", BURST], check=True, capture_output=True, text=True, timeout=60)  # noqa: S603 (ourselves)
    assert int(done.stdout) < 4 << 20


CYCLES = """
import gc
from app.heap import freeze

freeze()
found = []
gc.callbacks.append(lambda phase, info: found.append(info["collected"]) if phase == "stop" else None)
kept = [[] for _ in range(4_000)]
few = len(found)
for _ in range(20_000):
    loop = []
    loop.append(loop)
print(few, sum(found) > 10_000)
"""


def test_cycles_are_found_and_short_work_is_not_held_up_by_the_search() -> None:
    done = subprocess.run([sys.executable, "-c", CYCLES], check=True, capture_output=True, text=True, timeout=60)  # noqa: S603 (ourselves)
    assert done.stdout.split() == ["0", "True"]
