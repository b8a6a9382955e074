"""Processor time of one review without HTTP: reading it, deciding, writing the answer.

Run in a fresh process (`python -m dev.bench.admission.cpu`; with a number: what so many policies cost), so that nothing
but the code under test is warm. It must not open sockets.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from api.features import FeatureGates
from app.engine import engine
from dev.bench.admission import samples
from dev.bench.admission.policies import RULES_OF_EACH, Policies
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH, jobset_handlers
from webhooks.jobset.policies import PolicyChecks
from webhooks.review import AdmissionResponse, Handler, decided, decode_review, encode_review

MANY_POLICIES = 20
ROUNDS = 15
ROUND_SECONDS = 0.2


def cases() -> dict[str, tuple[str, bytes]]:
    """Name -> path and review; all but the last are of 8 ReplicatedJobs."""
    written = samples.jobset()
    return {
        "mutate create": (MUTATE_PATH, samples.review(written)),
        "validate create": (VALIDATE_PATH, samples.review(samples.stored(written))),
        "validate update": (VALIDATE_PATH, samples.review(samples.resumed(written), samples.suspended(written))),
        "refuse 5 faults": (VALIDATE_PATH, samples.review(samples.five_faults())),
        "refuse 500 faults": (VALIDATE_PATH, samples.review(samples.many_faults(500))),
    }


def measure() -> list[dict[str, Any]]:
    """One row a case; times in milliseconds of processor time, the median of rounds."""
    gates = FeatureGates()
    handlers, held = (
        jobset_handlers(engine(gates), None, PolicyChecks(source, source, gates))
        for source in (Policies(), Policies(MANY_POLICIES))
    )
    gc.collect()
    gc.freeze()
    rows = [_row(name, handlers[path], body) for name, (path, body) in cases().items()]
    path, body = cases()["validate create"]
    return [*rows, _row(f"create, {MANY_POLICIES} policies", held[path], body)]


def measure_policies(number: int) -> dict[str, Any]:
    """What so many policies, with defaults and exceptions, cost a new JobSet; and one rule, in microseconds."""
    gates = FeatureGates()
    rows = []
    for count in sorted({0, 1, number}):
        source = Policies(count)
        handlers = jobset_handlers(engine(gates), None, PolicyChecks(source, source, gates))
        for name in ("mutate create", "validate create"):
            path, body = cases()[name]
            rows.append({"policies": count, **_row(name, handlers[path], body)})
    spent = {row["policies"]: row["decide_ms"] for row in rows if row["case"] == "validate create"}
    more = max(number - 1, 1) * RULES_OF_EACH
    return {"rows": rows, "rule_us": (spent[number] - spent[1]) * 1e3 / more}


def _row(name: str, handler: Handler, body: bytes) -> dict[str, Any]:
    request = decode_review(body).request
    response = asyncio.run(_handled(handler, request, 1))[1]
    return {
        "case": name,
        "bytes": len(body),
        "code": response.code,
        "causes": len((response.status or {}).get("details", {}).get("causes", ())),
        "warnings": len(response.warnings),
        "read_ms": _median(lambda: decode_review(body)),
        "decide_ms": _decided(handler, request),
        "write_ms": _median(lambda: encode_review(response, uid="u", api_version="admission.k8s.io/v1")),
    }


def _median(call: Callable[[], object]) -> float:
    """Milliseconds of processor time of one call."""
    count = _count(lambda n: _timed(call, n))
    return statistics.median(_timed(call, count) / count for _ in range(ROUNDS)) * 1e3


def _timed(call: Callable[[], object], count: int) -> float:
    began = time.process_time()
    for _ in range(count):
        call()
    return time.process_time() - began


def _decided(handler: Handler, request: Any) -> float:
    """The same for a handler, which has to be awaited."""
    count = _count(lambda n: asyncio.run(_handled(handler, request, n))[0])
    return statistics.median(asyncio.run(_handled(handler, request, count))[0] / count for _ in range(ROUNDS)) * 1e3


async def _handled(handler: Handler, request: Any, count: int) -> tuple[float, AdmissionResponse]:
    began = time.process_time()
    for _ in range(count):
        response = await decided(handler(request))
    return time.process_time() - began, response


def _count(timed: Callable[[int], float]) -> int:
    """How many calls fill a round."""
    count = 1
    while (took := timed(count)) < ROUND_SECONDS / 10:
        count *= 2
    return max(1, int(count * ROUND_SECONDS / took))


if __name__ == "__main__":
    print(json.dumps(measure_policies(int(sys.argv[1])) if sys.argv[1:] else measure()))
