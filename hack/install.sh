#!/usr/bin/env bash
# `make install`: applies manifests/install.yaml and waits for the CRD. Says first that webhooks which are off come back,
# and what to do about fields that somebody else has changed.
#
#   hack/install.sh KUBECTL...
set -euo pipefail
file=$(dirname "$0")/../manifests/install.yaml
kinds=mutatingwebhookconfigurations,validatingwebhookconfigurations
off=$("$@" get $kinds -o jsonpath='{.items[*].metadata.annotations.jobset\.x-k8s\.io/webhooks-off}' 2> /dev/null || true)
if [ -n "$off" ]; then
    echo "make install: the webhooks are off (jobset webhooks off): this puts them back, also if it fails for other objects" >&2
fi
if ! answer=$("$@" apply --server-side -f "$file" 2>&1); then
    echo "$answer" >&2
    if [[ $answer == *conflict* ]]; then
        cat >&2 << END
make install: somebody else has changed what these conflicts name, by hand perhaps; the other objects were applied.
See what would change:  $* diff --server-side --force-conflicts -f manifests/install.yaml
Take it back:           $* apply --server-side --force-conflicts -f manifests/install.yaml
END
    fi
    exit 1
fi
echo "$answer"
for _ in 1 2 3; do
    sleep 1
    "$@" wait --for=condition=Established --timeout=60s crd/jobsets.jobset.x-k8s.io && exit 0
done
exit 1
