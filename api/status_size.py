"""Estimates how large the status of a JobSet may become. Pure.

etcd stores an object with its status, so a JobSet may become too large for etcd after its admission, when Jobs have
completed, failed or been restarted.
"""

from api.failure_actions import MAX_REPLICAS_TO_RESTART
from api.indexes import max_text_bytes
from api.jobset import JobSet, ReplicatedJob

ETCD_LIMIT = 1_572_864
"""Bytes of the largest object that etcd stores unless it is configured otherwise (--max-request-bytes)."""

HISTORY_BYTES = 80 * 1024
"""Bytes of the fields that do not grow with the spec: conditions, attempts, recoveries, failed nodes."""

LEFT_NODES_BYTES = 36 * 1024
"""Bytes of the nodes that a set with `failurePolicy.maintenance` leaves."""

RULE_BYTES = 768
"""Bytes for each rule of the failure policy: how often it was applied, and its step."""

ENTRY_BYTES = 350
"""Bytes for each ReplicatedJob, without names and digits: its counts, and their managedFields."""

COUNTS_OF_ENTRY = 6
"""How many counts of Jobs an entry has."""

RESTARTED_JOB_BYTES = 6
"""Bytes for each Job that may be restarted alone: its numbers of two digits in two lists, as in the Go JobSet."""

REDUCED_BYTES = 320
"""Bytes for an elastic ReplicatedJob, without its name: how many Jobs it has, since when, and its placeholders."""

SPARES_BYTES = 6 * 1024
"""Bytes for a group of spares, without its name: its counts, and the pods that are promised places."""

RESTART_LISTS_BYTES = 120
"""Bytes for the names of the two lists of `RESTARTED_JOB_BYTES`."""


def largest_status_size(js: JobSet, *, restarts_single_jobs: bool) -> int:
    """The most bytes that the JSON of the status may have, including its managedFields.

    `restarts_single_jobs`: whether some Jobs may be restarted alone.
    """
    policy = js.spec.failure_policy
    fixed_size = HISTORY_BYTES + (LEFT_NODES_BYTES if policy is not None and policy.maintenance is not None else 0)
    rules = policy.rules if policy is not None else ()
    text_limit = max_text_bytes(len(js.spec.replicated_jobs))
    entries = sum(_entry_size(rjob, text_limit, restarts_single_jobs) for rjob in js.spec.replicated_jobs)
    return fixed_size + len(rules) * RULE_BYTES + entries


def _entry_size(rjob: ReplicatedJob, text_limit: int, restarts_single_jobs: bool) -> int:
    """The most bytes of the status about one ReplicatedJob. Indexes longer than `text_limit` become a bitmap."""
    digits = len(str(rjob.replicas))
    indexes = min(rjob.replicas * (digits + 1), max(text_limit, rjob.replicas // 6 + 16))
    restarts = 0
    if restarts_single_jobs:
        restarts = RESTART_LISTS_BYTES + RESTARTED_JOB_BYTES * min(rjob.replicas, MAX_REPLICAS_TO_RESTART)
    reduced = REDUCED_BYTES + len(rjob.name) if rjob.elastic is not None else 0
    spares = SPARES_BYTES + 2 * len(rjob.name) if rjob.spare_for else 0
    return reduced + spares + ENTRY_BYTES + 2 * len(rjob.name) + COUNTS_OF_ENTRY * digits + indexes + restarts
