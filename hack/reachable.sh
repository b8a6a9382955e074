#!/usr/bin/env bash
# `make install`, `make uninstall` and `make run`: ends with one message if the cluster cannot be reached, and says which was tried.
#
#   hack/reachable.sh TARGET KUBECTL...
set -euo pipefail
target=$1
shift
if [ -n "${KUBECONFIG:-}" ] && ! [[ $KUBECONFIG == *:* ]] && ! [ -e "$KUBECONFIG" ]; then
    echo "make $target: there is no file $KUBECONFIG (KUBECONFIG), and nothing was changed" >&2
    exit 1
fi
if ! answer=$("$@" get --raw /version --request-timeout=10s 2>&1 < /dev/null); then
    if [ -n "${KUBECONFIG:-}" ]; then
        tried="the cluster of KUBECONFIG=$KUBECONFIG"
    else
        tried="KUBECONFIG is not set, so the cluster of ~/.kube/config was tried: it"
    fi
    cat >&2 << END
make $target: $tried does not answer, and nothing was changed: $(tail -n 1 <<< "$answer")
Name the file of a cluster that runs: make $target KUBECONFIG=/path/to/kubeconfig (a local one: .venv/bin/jobset cluster up)
END
    exit 1
fi
