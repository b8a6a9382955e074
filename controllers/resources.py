"""The API resource of JobSets. It is not in kube/resources.py, since `kube/` must not know what a JobSet is."""

from api import keys
from kube.resources import Resource

JOBSETS = Resource(keys.GROUP, keys.VERSION, keys.KIND, keys.PLURAL)
