"""The bounds of one plan, as data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds that a plan keeps to. Tests and benchmarks hand in their own.

    - `queued_jobs`: Jobs of one set that may run and that the Job controller has not taken up yet. It serves Jobs in
      their order: those of a small set that come after thousands of a large one would have to wait for all of these.
    - `batch_deletion_from`: Jobs of a set from which on those of earlier attempts are deleted many at a time: two calls
      to look for their pods have to pay.
    - `jobs_per_deletion`: Jobs of one such call. The API server deletes those of one call one after the other, and
      calls side by side.
    - `foreign_retry`: seconds until a look whether an object of somebody else has made room.
    - `cache_lag`: seconds that the cache of JobSets may be behind that of Jobs.
    - `named_objects`: objects that one warning names; the rest is counted.
    - `quoted_characters`: characters of the scheduler's message that a condition repeats.
    """

    queued_jobs: int = 40
    batch_deletion_from: int = 10
    jobs_per_deletion: int = 30
    foreign_retry: float = 10.0
    cache_lag: float = 60.0
    named_objects: int = 5
    quoted_characters: int = 300


DEFAULT_LIMITS = Limits()
