"""The in-place restart agent: a small program in every worker pod (docs/reference/in-place-restart.md).

It holds the pod's worker behind a barrier until all pods of the JobSet have reported the same attempt, and ends when
that attempt is over, so that the kubelet starts the containers again in the pod that is already there.

Standard library only, and nothing of the other packages: thousands of copies run beside somebody's workers, in images
that hold nothing but a Python, and each has to be up in well under a second in a few megabytes.
"""
