"""The requests in the audit log, which the checks judge.

The API server gives each stored write a resourceVersion, which increases over all kinds of objects. So the order of two
stored writes is certain, whatever clocks say.
"""

from dev.cluster.audit import WRITES, Call
from manifests import NAMESPACE, SERVICE_ACCOUNT

__all__ = ["MANAGER", "WRITES", "Event"]

MANAGER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
Event = Call
