"""The API resources of JobSets and policies. They are not in kube/resources.py, since `kube/` must not know them."""

from api import keys
from kube.resources import Resource
from policy import kinds

JOBSETS = Resource(keys.GROUP, keys.VERSION, keys.KIND, keys.PLURAL)
JOBSET_POLICIES = Resource(kinds.GROUP, kinds.VERSION, kinds.KIND, kinds.PLURAL, namespaced=False)
POLICY_EXCEPTIONS = Resource(kinds.GROUP, kinds.VERSION, kinds.EXCEPTION_KIND, kinds.EXCEPTION_PLURAL)
