"""The requests that checks judge, from the audit log.

The API server gives each stored write a resourceVersion, which it counts up over all kinds of objects: so the order of
two stored writes is certain, whatever clocks say.
"""

from dev.cluster.audit import WRITES, Call
from manifests import NAMESPACE, SERVICE_ACCOUNT

__all__ = ["MANAGER", "WRITES", "Event"]

MANAGER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
Event = Call
