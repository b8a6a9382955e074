"""A simulated Kubernetes API server that keeps its objects in memory, for tests.

Entry points: `api_server.ApiServer()`, without controllers: a test plays them; `rest.Rest(server)` answers HTTP
requests to it.

What it simulates:

- Requests on objects: create, get, list (in pages), watch, update, patch, delete, deletecollection; with UIDs,
  resource versions, preconditions, selectors, finalizers, status subresources and dry runs (`api_server`, `storage`,
  `selectors`, `patches`). `rest` answers HTTP requests with them.
- Defaults of Jobs (`job_rules`), and the status that the Job controller writes (`job_status`).

What it refuses, with the status code of a real API server: names that are taken, preconditions that do not hold,
changes of immutable fields of Jobs (`job_rules`), and groups of `scheduling.k8s.io` that are not valid (`group_rules`).
It also refuses what no real server checks but no cluster has: a status of a JobSet that cannot be true
(`jobset_rules`). So a mistake of a manager ends a test.

What it does not do: authentication, admission webhooks, validation against a schema, defaults of other kinds than Jobs,
server-side apply, JSON patch, times to live. tests/integration checks on a real API server what is assumed here.

Tests import it, the program must not. It must not know what the JobSet controller wants: a mistake that
both make would not be found.
"""
