"""The page of the types whose objects take most of the heap of this process.

tracemalloc would name the lines that allocate, but it makes every allocation slower, and a snapshot of a million
allocations stops the event loop for seconds. Counting the types of objects costs nothing until it is requested.
"""

import asyncio
import gc
import resource
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Final

MAX_LOOKED_AT: Final = 1_000_000
"""Largest number of objects that are measured. Of a larger heap, every second or third object is measured."""

MAX_RESIDENT: Final = 2 << 30
"""Bytes of memory in use above which no objects are counted: listing them would stop the loop for half a second."""

MAX_TYPES: Final = 40
"""Largest number of types on the page."""

BATCH: Final = 5_000
"""Number of objects that are measured before the event loop gets a turn. Measuring a batch takes 2 ms."""

_MIB: Final = 1 << 20


async def objects(max_looked_at: int = MAX_LOOKED_AT, max_resident: int = MAX_RESIDENT) -> str:
    """The page: the memory in use, then the types with most bytes.

    The size of an object does not include the objects that it refers to.
    """
    resident_bytes = _resident_bytes()
    head = (
        f"{resident_bytes / _MIB:.0f} MiB in use, {sys.getallocatedblocks()} blocks of Python\n"
        f"{gc.get_freeze_count()} objects were there at the start and are not counted below\n"
    )
    if resident_bytes > max_resident:
        return f"{head}objects are not counted: more than {max_resident / _MIB:.0f} MiB are in use\n"
    heap_objects = gc.get_objects()
    step = -(-len(heap_objects) // max_looked_at)
    counts: Counter[type] = Counter()
    sizes: Counter[type] = Counter()
    for number, heap_object in enumerate(islice(heap_objects, 0, None, step), 1):
        kind = type(heap_object)
        counts[kind] += 1
        sizes[kind] += sys.getsizeof(heap_object)
        if number % BATCH == 0:
            await asyncio.sleep(0)
    looked_at = "" if step == 1 else f"; one in {step} was looked at, numbers are estimates"
    lines = [
        f"{sizes[kind] * step:>12} {counts[kind] * step:>9} {_type_name(kind)}"
        for kind, _ in sizes.most_common(MAX_TYPES)
    ]
    return (
        f"{head}{len(heap_objects)} objects{looked_at}\n\n{'bytes':>12} {'objects':>9} type\n" + "\n".join(lines) + "\n"
    )


def _resident_bytes() -> int:
    """Bytes of memory in use, or on a system without /proc the highest number so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize()


def _type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
