"""The bounds of one plan, as data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one plan. Tests and benchmarks pass their own.

    - `queued_jobs`: most running Jobs of one set that the Job controller has not taken up yet, while it has Jobs of
      another set to take up. It processes Jobs in their order of arrival: a small set would have to wait for thousands
      of Jobs of a large one. See controllers/planning/job_window.py for a set that is alone.
    - `suspended_jobs`: Jobs that are created in one plan for a suspended set; the next plan creates more.
    - `new_groups`: groups for kube-scheduler that are created in one plan; the next plan creates more.
    - `judged_jobs`: failed Jobs that are looked at in one plan, the earliest first.
    - `judgements`: comparisons of a failed Job with a rule or pattern of the failure policy, in one plan. Where there
      are many rules and patterns, fewer Jobs are looked at.
    - `batch_deletion_from`: a set with this many Jobs or more deletes those of earlier attempts many at a time. In a
      smaller set that would cost more calls than it saves: it takes two more to look for their pods.
    - `jobs_per_deletion`: Jobs that one such call deletes. The API server deletes the Jobs of one call one after the
      other, and handles several calls at the same time.
    - `sorted_jobs_from`: a set with this many Jobs or more keeps them sorted between plans. In a smaller set that would
      save little, and it takes a quarter of a KiB for each Job.
    - `foreign_retry`: seconds until the next check whether the name that another owner's object holds is free.
    - `cache_lag`: seconds that the cache of JobSets may be behind that of Jobs.
    - `named_objects`: objects that one warning names; the rest is counted.
    - `quoted_characters`: characters of the scheduler's message that a condition repeats.
    """

    queued_jobs: int = 40
    suspended_jobs: int = 1000
    new_groups: int = 1000
    judged_jobs: int = 1000
    judgements: int = 20_000
    batch_deletion_from: int = 10
    jobs_per_deletion: int = 30
    sorted_jobs_from: int = 200
    foreign_retry: float = 10.0
    cache_lag: float = 60.0
    named_objects: int = 5
    quoted_characters: int = 300


DEFAULT_LIMITS = Limits()
