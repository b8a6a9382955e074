"""A simulated Kubernetes API server that keeps its objects in memory, for tests.

Entry points: `api_server.ApiServer()` has no controllers: a test plays them. `rest.Rest(server)` answers HTTP requests
to it.

What it simulates:

- Requests on objects: create, get, list (in pages), watch, update, patch, delete, deletecollection; with UIDs,
  resource versions, preconditions, selectors, finalizers, status subresources and dry runs (`api_server`, `storage`,
  `selectors`, `patches`).
- Defaults of Jobs (`job_rules`), and the status that the Job controller writes (`job_status`).

What it refuses, with the status code of a real API server: names that are taken, preconditions that do not hold,
changes of immutable fields of Jobs (`job_rules`), and groups of `scheduling.k8s.io` that are not valid (`group_rules`).
It also refuses a status of a JobSet that cannot be true, which a real server would accept (`jobset_rules`). So a
mistake of a manager ends a test.

What it does not simulate: authentication, admission webhooks, validation against a schema, defaults of other kinds than
Jobs, server-side apply, JSON patch, times to live. tests/integration checks on a real API server what is assumed here.

Tests import it, the program must not. It must not be written with knowledge of the JobSet controller: no test would
find a mistake that both make.
"""
