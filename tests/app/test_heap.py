"""What a burst leaves behind, in a process of its own: memory that was freed is memory that the system has again."""

import subprocess
import sys

import pytest

from app.heap import return_pages_after_bursts, unchanged_files

BURST = """
import ctypes, re
from pathlib import Path
from app.heap import LARGE_BLOCK_BYTES, keep_large_blocks_apart

keep_large_blocks_apart()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def resident() -> int:
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024


libc.free(libc.malloc(16 * LARGE_BLOCK_BYTES))  # what makes glibc raise its limit
before = resident()
large = []
for _ in range(128):
    large.append(libc.malloc(2 * LARGE_BLOCK_BYTES))
    ctypes.memset(large[-1], 1, 2 * LARGE_BLOCK_BYTES)
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


async def test_memory_goes_back_once_after_each_burst_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, given_back = iter([5, 5, 5, 6, 8, 8, 8, 9, 9]), []
    requests = 5
    monkeypatch.setattr("app.heap.return_free_pages", lambda: given_back.append(requests))

    def count() -> int:
        nonlocal requests
        requests = next(counts)
        return requests

    with pytest.raises(RuntimeError):  # no more counts
        await return_pages_after_bursts(count, every=0)
    assert given_back == [8, 9]


UNMAPPED = """
import importlib, sys
from pathlib import Path
from app.heap import unmap_libraries

def mapped() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssFile:"))

import cryptography.x509, jsonschema_rs, pydantic, ssl
before = mapped()
unmap_libraries()
after = mapped()
class Model(pydantic.BaseModel):
    number: int
assert not jsonschema_rs.is_valid({"type": "string"}, Model(number="1").number)
ssl.create_default_context()
print(before, after)
"""


def test_libraries_are_unmapped_and_still_work() -> None:
    done = subprocess.run([sys.executable, "-c", UNMAPPED], check=True, capture_output=True, text=True, timeout=60)  # noqa: S603 (ourselves)
    before, after = map(int, done.stdout.split())
    assert after < before / 2


MAPPING = """\
7f0000000000-7f0000001000 {rights} 00000000 08:01 {inode} {path}
Rss:                   4 kB
Anonymous:             {anonymous} kB
Swap:                  {swap} kB
VmFlags: rd mr mw me
"""
LIBRARY = {"rights": "r-xp", "inode": 7, "path": "/lib/a.so", "anonymous": 0, "swap": 0}


@pytest.mark.parametrize(
    ("changed", "is_unchanged"),
    [
        ({}, True),
        ({"rights": "r--p"}, True),
        ({"rights": "rw-p"}, False),
        ({"rights": "r--s"}, False),
        ({"inode": 0, "path": "[heap]"}, False),
        ({"anonymous": 4}, False),
        ({"swap": 4}, False),
    ],
)
def test_no_page_is_unmapped_that_the_file_does_not_hold(changed: dict[str, object], is_unchanged: bool) -> None:
    beside = MAPPING.format(**LIBRARY).replace("7f00", "7e00")
    found = list(unchanged_files(MAPPING.format(**LIBRARY | changed) + beside))
    assert ((0x7F0000000000, 0x7F0000001000) in found) is is_unchanged
    assert (0x7E0000000000, 0x7E0000001000) in found
    assert list(unchanged_files(MAPPING.format(**LIBRARY).replace("Anonymous", "Other"))) == []
