"""Limits of one plan, which is what the controller does about one JobSet after one look at it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one plan. Tests and benchmarks pass their own limits.

    - `queued_jobs`: how many running Jobs of one set may wait for the Job controller, while Jobs of another set also
      wait for it. The Job controller processes Jobs in their order of arrival, so a small set would have to wait for
      thousands of Jobs of a large set. `controllers/planning/job_window.py` has the limit for a set that is alone.
    - `create_suspended`: whether Jobs, the Service and claims are created for a set while it is suspended.
    - `suspended_jobs`: how many Jobs one plan creates for a suspended set; the next plan creates more.
    - `new_groups`: how many groups for kube-scheduler one plan creates; the next plan creates more.
    - `judged_jobs`: about how many failed Jobs one plan decides. It takes the Jobs that failed first.
    - `judgements`: how many times one plan compares a failed Job with a rule or pattern of the failure policy. The more
      rules and patterns a policy has, the fewer Jobs a plan decides about.
    - `batch_deletion_from`: a set with this many Jobs or more deletes Jobs from before a restart in batches. A smaller
      set would save fewer calls than the two calls that look for the pods of the deleted Jobs.
    - `jobs_per_deletion`: how many Jobs one call deletes. The API server deletes the Jobs of one call one after
      another, and handles several calls at the same time.
    - `sorted_jobs_from`: a set with this many Jobs or more keeps its Jobs sorted by state between plans. This takes a
      quarter of a KiB for each Job, and saves little time for a smaller set.
    - `name_conflict_retry_seconds`: if the object of another owner has a name that the set needs, the seconds
      until the next check whether the name is free.
    - `cache_lag`: how many seconds the cache of JobSets may be behind the cache of Jobs.
    - `named_objects`: how many objects one warning names; it counts the rest.
    - `quoted_characters`: how many characters of kube-scheduler's message a condition quotes.
    """

    queued_jobs: int = 40
    create_suspended: bool = True
    suspended_jobs: int = 1000
    new_groups: int = 1000
    judged_jobs: int = 1000
    judgements: int = 20_000
    batch_deletion_from: int = 10
    jobs_per_deletion: int = 30
    sorted_jobs_from: int = 200
    name_conflict_retry_seconds: float = 10.0
    cache_lag: float = 60.0
    named_objects: int = 5
    quoted_characters: int = 300


DEFAULT_LIMITS = Limits()
