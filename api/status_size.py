"""How large the status of a JobSet may become. Pure.

etcd stores an object with its status, so a JobSet may become too large for etcd after its admission, when Jobs have
completed, failed or been restarted.
"""

from api.failure_actions import MAX_REPLICAS_TO_RESTART
from api.indexes import longest_text
from api.jobset import JobSet, ReplicatedJob

ETCD_LIMIT = 1_572_864
"""Bytes of the largest object that etcd stores unless it is configured otherwise (--max-request-bytes)."""

HISTORY = 80 * 1024
"""Bytes of all that does not grow with the spec: conditions, attempts, recoveries, failed nodes."""

LEFT_NODES = 36 * 1024
"""Bytes of the nodes that a set with `failurePolicy.maintenance` leaves."""

RULE = 768
"""Bytes for each rule of the failure policy: how often it was applied, and its step."""

ENTRY = 350
"""Bytes for each ReplicatedJob beside names and numbers: its counts, and what managedFields say of them."""

NUMBERS = 6
"""Counts of Jobs in an entry."""

RESTARTS = 6
"""Bytes for each Job that may be restarted alone: its entries of two digits in two lists. The Go JobSet has the same
lists."""

REDUCED = 320
"""Bytes for an elastic ReplicatedJob beside its name: how many Jobs it has, since when, and its placeholders."""

SPARES = 6 * 1024
"""Bytes for a group of spares beside its name: its counts, and the pods that are promised places."""

LISTS = 120
"""Bytes for the names of these two lists."""


def largest_status(js: JobSet, *, alone: bool) -> int:
    """Bytes of the JSON of the status at its largest, including its managedFields.

    `alone`: whether some Jobs may be restarted alone.
    """
    policy = js.spec.failure_policy
    once = HISTORY + (LEFT_NODES if policy is not None and policy.maintenance is not None else 0)
    rules = policy.rules if policy is not None else ()
    long = longest_text(len(js.spec.replicated_jobs))
    return once + len(rules) * RULE + sum(_entry(rjob, long, alone) for rjob in js.spec.replicated_jobs)


def _entry(rjob: ReplicatedJob, long: int, alone: bool) -> int:
    """Bytes of one ReplicatedJob. `long`: completed indexes of this many bytes or more are written as a bitmap."""
    digits = len(str(rjob.replicas))
    indexes = min(rjob.replicas * (digits + 1), max(long, rjob.replicas // 6 + 16))
    restarts = LISTS + RESTARTS * min(rjob.replicas, MAX_REPLICAS_TO_RESTART) if alone else 0
    reduced = REDUCED + len(rjob.name) if rjob.elastic is not None else 0
    spares = SPARES + 2 * len(rjob.name) if rjob.spare_for else 0
    return reduced + spares + ENTRY + 2 * len(rjob.name) + NUMBERS * digits + indexes + restarts
