"""Measures the processor time of one review without HTTP: reading it, deciding, writing the answer.

Run `python -m dev.bench.admission.cpu` in a fresh process, so that only the code under test is warm. A number as its
argument measures the cost of that many policies instead.
"""

import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from api.features import FeatureGates
from app.engine import engine
from dev.bench.admission import samples
from dev.bench.admission.policies import RULES_OF_EACH, Policies
from kube.model.meta import JSON
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH, jobset_handlers
from webhooks.jobset.policies import PolicyChecks
from webhooks.review import Handler, answer_of, decode_review, encode_review

ROUNDS = 15
ROUND_SECONDS = 0.2


def cases() -> dict[str, tuple[str, bytes]]:
    """By name, the path and body of reviews of JobSets with 8 ReplicatedJobs."""
    jobset = samples.jobset()
    suspended = samples.suspended_set(jobset)
    return {
        "mutate create": (MUTATE_PATH, samples.review(jobset)),
        "validate create": (VALIDATE_PATH, samples.review(samples.with_defaults(jobset))),
        "validate update": (VALIDATE_PATH, samples.review(samples.resumed_set(jobset), suspended)),
        "refuse 5 faults": (VALIDATE_PATH, samples.review(samples.five_faults())),
    }


def measure() -> list[JSON]:
    """A row for each case. Times are milliseconds of processor time, the median of rounds."""
    handlers = _handlers_with(Policies())
    gc.collect()
    gc.freeze()
    return [_row(name, handlers[path], body) for name, (path, body) in cases().items()]


def measure_policies(number: int) -> JSON:
    """The cost of `number` policies with defaults and exceptions for a new JobSet, and of one rule in microseconds."""
    rows = []
    for count in sorted({0, 1, number}):
        handlers = _handlers_with(Policies(count))
        for name in ("mutate create", "validate create"):
            path, body = cases()[name]
            rows.append({"policies": count, **_row(name, handlers[path], body)})
    decide_ms = {row["policies"]: row["decide_ms"] for row in rows if row["case"] == "validate create"}
    added_rules = max(number - 1, 1) * RULES_OF_EACH
    return {"rows": rows, "rule_us": (decide_ms[number] - decide_ms[1]) * 1e3 / added_rules}


def _handlers_with(policies: Policies) -> Mapping[str, Handler]:
    """The handlers of JobSets by path, with these policies in force."""
    gates = FeatureGates()
    return jobset_handlers(engine(gates), None, PolicyChecks(policies, policies, gates))


def _row(name: str, handler: Handler, body: bytes) -> JSON:
    request = decode_review(body).request
    response = asyncio.run(answer_of(handler(request)))
    return {
        "case": name,
        "bytes": len(body),
        "code": response.code,
        "causes": len((response.status or {}).get("details", {}).get("causes", ())),
        "warnings": len(response.warnings),
        "read_ms": _median_ms(lambda: decode_review(body)),
        "decide_ms": _median_decision_ms(handler, request),
        "write_ms": _median_ms(lambda: encode_review(response, uid="u", api_version="admission.k8s.io/v1")),
    }


def _median_ms(call: Callable[[], object]) -> float:
    """Milliseconds of processor time of one call, the median of rounds."""

    def spend(count: int) -> float:
        start = time.process_time()
        for _ in range(count):
            call()
        return time.process_time() - start

    return _median_of_rounds_ms(spend)


def _median_decision_ms(handler: Handler, request: Any) -> float:
    """Milliseconds of processor time of one decision of a handler, which has to be awaited."""

    async def spend(count: int) -> float:
        start = time.process_time()
        for _ in range(count):
            await answer_of(handler(request))
        return time.process_time() - start

    return _median_of_rounds_ms(lambda count: asyncio.run(spend(count)))


def _median_of_rounds_ms(spend: Callable[[int], float]) -> float:
    """Milliseconds of one call, the median of rounds. A round has as many calls as fit into `ROUND_SECONDS`.

    `spend(count)` returns the seconds of `count` calls.
    """
    count = 1
    while (seconds := spend(count)) < ROUND_SECONDS / 10:
        count *= 2
    count = max(1, int(count * ROUND_SECONDS / seconds))
    return statistics.median(spend(count) / count for _ in range(ROUNDS)) * 1e3


if __name__ == "__main__":
    print(json.dumps(measure_policies(int(sys.argv[1])) if sys.argv[1:] else measure()))
