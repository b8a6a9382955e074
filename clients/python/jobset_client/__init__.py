"""JobSets in Python: typed objects, builders, and errors that say what to do.

`jobset_client.sync.Client` and `jobset_client.aio.AsyncClient` talk to a cluster.
"""

from jobset_client.base import ObjectMeta
from jobset_client.errors import JobSetError, JobSetWarning, NeverError, NotFoundError, WaitTimeoutError
from jobset_client.models import JobSet, JobSetSpec, JobSetStatus, ReplicatedJob
from jobset_client.operations import Event

__all__ = [
    "Event",
    "JobSet",
    "JobSetError",
    "JobSetSpec",
    "JobSetStatus",
    "JobSetWarning",
    "NeverError",
    "NotFoundError",
    "ObjectMeta",
    "ReplicatedJob",
    "WaitTimeoutError",
]
