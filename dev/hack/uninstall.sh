#!/usr/bin/env bash
# `make uninstall`: deletes what manifests/install.yaml has. The CRD takes every JobSet of the cluster along, with Jobs
# and pods: so it lists them and asks first. YES=1 answers for you. What was installed beside it stays, and is named.
#
#   dev/hack/uninstall.sh KUBECTL...
set -euo pipefail
crd=jobsets.jobset.x-k8s.io
if [ -n "$("$@" get crd "$crd" --ignore-not-found -o name)" ]; then
    columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,ENDED:.status.terminalState
    table=$("$@" get "$crd" --all-namespaces -o custom-columns="$columns" | sed 's/<none>$/no/')
    sets=$(tail -n +2 <<< "$table")
    if [ -n "$sets" ] && [ "${YES:-}" != 1 ]; then
        count=$(wc -l <<< "$sets")
        echo "$count JobSet$([ "$count" -eq 1 ] || echo s) would be deleted, with Jobs and pods:"
        head -n 21 <<< "$table"
        if [ "$(wc -l <<< "$sets")" -gt 20 ]; then echo "..."; fi
        if ! [ -t 0 ]; then
            echo "nothing was deleted: delete them with \`make uninstall YES=1\`" >&2
            exit 1
        fi
        read -r -p "Delete them? [y/N] " answer
        if [ "$answer" != y ]; then
            echo "nothing was deleted"
            exit 1
        fi
    fi
fi
exec 3>&1
manifests=$(dirname "$0")/../../manifests
deleted=$("$@" delete -f "$manifests/install.yaml" --ignore-not-found | tee /dev/fd/3)
if [ -z "$deleted" ]; then echo "There was nothing to remove: JobSet is not installed in this cluster."; fi
for part in policy policy-in-api-server policy-reports reserved-label in-api-server/policies; do
    left=$("$@" get -k "$manifests/$part" --ignore-not-found -o name 2> /dev/null || true)
    if [ -n "$left" ]; then
        echo "Still there, for it was installed by itself: ${left//$'\n'/, }"
        echo "  to remove it:  $* delete -k manifests/$part"
    fi
done
