"""The in-place restart agent: a small program in every worker pod (docs/reference/in-place-restart.md).

It holds the pod's worker behind a barrier until all pods of the JobSet have reported the same attempt. It ends when
that attempt is over, so that the kubelet starts the containers again in the existing pod. It can also end a worker that
hangs (docs/reference/watchdog.md).

The agent imports only the standard library and no other package: thousands of copies run beside workers, in images with
only Python. Each copy has to start in well under a second and use little memory (the figures are in
docs/reference/in-place-restart.md#what-it-costs).
"""
