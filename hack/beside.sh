#!/usr/bin/env bash
# `make run`: says what a manager on this machine cannot do while one is installed in the cluster, and how to take its place.
#
#   hack/beside.sh KUBECTL...
set -euo pipefail
manager=deployment/jobset-controller-manager
replicas=$("$@" -n jobset-system get "$manager" --ignore-not-found -o 'jsonpath={.spec.replicas}' 2> /dev/null) || exit 0
if [ -n "$replicas" ] && [ "$replicas" != 0 ]; then
    flag=${KUBECONFIG:+ --kubeconfig=$KUBECONFIG}
    cat >&2 << END
A manager is installed in this cluster, with $replicas replicas. It holds the lease, so the one that starts now only waits; and the API
server calls the webhooks of the installed one. To run this one in its place, without admission:
  $* -n jobset-system scale $manager --replicas=0 && .venv/bin/jobset webhooks off$flag
  make run${KUBECONFIG:+ KUBECONFIG=$KUBECONFIG} ARGS=--webhooks=false
And back:
  $* -n jobset-system scale $manager --replicas=$replicas && .venv/bin/jobset webhooks on$flag
END
fi
