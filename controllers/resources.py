"""The API resources of JobSets and policies. They are not in kube/resources.py: `kube/` must not know what they are."""

from api import keys
from kube.resources import Resource
from policy import kinds
from policy import types as policy
from policy.exception_types import EXCEPTION_PLURAL

JOBSETS = Resource(keys.GROUP, keys.VERSION, keys.KIND, keys.PLURAL)
JOBSET_POLICIES = Resource(kinds.GROUP, policy.VERSION, kinds.KIND, policy.PLURAL, namespaced=False)
POLICY_EXCEPTIONS = Resource(kinds.GROUP, policy.VERSION, kinds.EXCEPTION_KIND, EXCEPTION_PLURAL)
