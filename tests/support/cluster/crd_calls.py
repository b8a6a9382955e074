"""JobSets sent to an API server that has our CRD."""

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
STRICT = "fieldValidation=Strict"
TOO_MANY = "Too many: {}: must have at most {} items"


def replicated(**more):
    pod = {"containers": [{"name": "c", "image": "i"}]}
    return {"name": "w", "template": {"spec": {"template": {"spec": pod}}}} | more


def spec(**more):
    return {"replicatedJobs": [replicated()]} | more
