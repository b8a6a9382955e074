"""A simulated Kubernetes API server that keeps its objects in memory, for tests and benchmarks.

Entries, without arguments: `cluster.SteppedCluster()`, whose reactions a test runs with `settle()` or one by one;
`cluster.Cluster()`, which reacts at once; `api_server.ApiServer()` without controllers. `rest.Rest(server)` answers
HTTP requests to one of them.

What it simulates:

- Requests on objects: create, get, list (in pages), watch, update, patch, delete, deletecollection; with UIDs,
  resource versions, preconditions, selectors, finalizers, status subresources and dry runs (`api_server`, `storage`,
  `selectors`, `patches`). `rest` answers HTTP requests with them, `wire` is an HTTP/1.1 connection, and `discovery`
  says what is served.
- Defaults of Jobs (`job_rules`), and the status that the Job controller writes (`job_status`).
- In `cluster.Cluster` only: a Job controller, a scheduler, kubelets and a garbage collector that act at once and never
  fail. An `ApiServer` alone has no controllers: a test plays them.

What it refuses, with the status code of a real API server: names that are taken, preconditions that do not hold,
changes of immutable fields of Jobs (`job_rules`), and groups of `scheduling.k8s.io` that are not valid (`group_rules`).
It also refuses what no real server checks but no cluster has: a status of a JobSet that cannot be true
(`jobset_rules`), and owners that do not exist (`cluster`). So a mistake of a manager ends a test or a benchmark, and
does not make it faster.

What it does not do: authentication, admission webhooks, validation against a schema, defaults of other kinds than Jobs,
server-side apply, JSON patch, times to live, capacity of nodes. `Cluster` does not replace pods that are deleted, and
does not wait for finalizers. tests/integration checks on a real API server what is assumed here.

Tests and `bench` import it, the program must not. It must not know what the JobSet controller wants: a mistake that
both make would not be found.
"""
