"""JobSets in Python: typed objects, builders, and errors that say what to do.

`jobset_client.sync.Client` and `jobset_client.aio.AsyncClient` talk to a cluster. Names are imported when they are
first used, since the commands read manifests with this package without the models.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
_MODULES = {"Event": "operations", "ObjectMeta": "base"} | dict.fromkeys(
    ("JobSet", "JobSetSpec", "JobSetStatus", "ReplicatedJob"), "models"
)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)
