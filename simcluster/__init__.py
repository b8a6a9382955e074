"""A cluster in memory, for tests and benchmarks: what the API server promises, and what its controllers do.

`storage` keeps versions of objects, `patches` and `selectors` are read as Kubernetes reads them, `job_rules` and
`group_rules` say what the API server would refuse, `job_status` what the Job controller would write, `verbs` are the
requests on objects, `http` is the API over them. Must not know what the JobSet controller wants. The product must not
import it.
"""
