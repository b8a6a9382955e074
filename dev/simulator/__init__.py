"""A simulated Kubernetes API server that keeps its objects in memory, for tests.

Entry points are `api_server.ApiServer()`, which has no controllers, so that tests have to act as them, and
`rest.Rest(server)`, which answers HTTP requests to that server.

What it simulates:

- Requests on objects: create, get, list (in pages), watch, update, patch, delete, deletecollection; with UIDs,
  resource versions, preconditions, selectors, finalizers, status subresources and dry runs (`api_server`, `storage`,
  `selectors`, `patches`).
- Defaults of Jobs (`job_rules`), and the status that the Job controller writes (`job_status`).

What it refuses, with the status code of a real API server: names that are taken, preconditions that do not hold,
changes of immutable fields of Jobs (`job_rules`), and groups of `scheduling.k8s.io` that are not valid (`group_rules`).
It also refuses a status of a JobSet that cannot be true, which a real server would accept (`jobset_rules`), so that a
mistake of a manager ends a test.

What it does not simulate: authentication, admission webhooks, validation against a schema, defaults of other kinds than
Jobs, server-side apply, JSON patch, times to live. tests/integration checks on a real API server what is assumed here.

Only tests import it. Its code must not rely on knowledge of the JobSet controller, since no test would find a mistake
that the simulator and the controller share.
"""
