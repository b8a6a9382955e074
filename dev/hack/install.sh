#!/usr/bin/env bash
# `make install`: applies manifests/install.yaml and waits for the CRD. Says first that webhooks which are off come back,
# and what to do about fields that somebody else has changed. IMAGE=name:tag puts another image into it. Changes nothing
# where the webhooks are called by URL, as by `make demo`: the manager there would not be called any more.
#
#   dev/hack/install.sh KUBECTL...
set -euo pipefail
cd "$(dirname "$0")/../.."
file=manifests/install.yaml
if [ -n "${IMAGE:-}" ]; then
    if ! [[ $IMAGE =~ ^[A-Za-z0-9._:/@-]+$ ]]; then
        echo "make install: '$IMAGE' is not an image, and nothing was changed: write IMAGE=registry.example/jobset:v0.1.0" >&2
        exit 2
    fi
    mkdir -p build
    sed "s|^\( *\)image: jobset:.*|\1image: $IMAGE|" "$file" > build/install.yaml
    file=build/install.yaml
fi
ours="mutatingwebhookconfiguration/jobset-mutating-webhook-configuration validatingwebhookconfiguration/jobset-validating-webhook-configuration"
# shellcheck disable=SC2086 # two words
urls=$("$@" get $ours --ignore-not-found -o jsonpath='{..clientConfig.url}' 2> /dev/null || true)
if [ -n "$urls" ]; then
    cat >&2 << END
make install: a manager outside this cluster serves its webhooks, which are called by URL (${urls%% *}), as after
\`make demo\`. This would have a Service called in place of it, and nothing was changed. If that is what you want:
  $* delete $ours
  make install
END
    exit 1
fi
kinds=mutatingwebhookconfigurations,validatingwebhookconfigurations
off=$("$@" get $kinds -o jsonpath='{.items[*].metadata.annotations.jobset\.x-k8s\.io/webhooks-off}' 2> /dev/null || true)
if [ -n "$off" ]; then
    echo "make install: the webhooks are off (jobset webhooks off): this puts them back, also if it fails for other objects" >&2
fi
# Selectors of the Go JobSet and of earlier versions have who manages in them, and a Deployment's cannot be changed:
# docs/upgrade.md#who-manages-in-a-selector.
key='app\.kubernetes\.io/managed-by' name=jobset-controller-manager
for service in jobset-webhook-service $name-metrics-service; do
    if [ -n "$("$@" get service -n jobset-system $service --ignore-not-found -o jsonpath="{.spec.selector.$key}" 2> /dev/null || true)" ]; then
        "$@" patch service -n jobset-system $service --type=json -p '[{"op":"remove","path":"/spec/selector/app.kubernetes.io~1managed-by"}]'
    fi
done
if [ -n "$("$@" get deployment -n jobset-system $name --ignore-not-found -o jsonpath="{.spec.selector.matchLabels.$key}" 2> /dev/null || true)" ]; then
    "$@" delete deployment -n jobset-system $name --cascade=orphan
    echo "make install: the Deployment is made again, and takes over its pods" >&2
fi
if ! answer=$("$@" apply --server-side -f "$file" 2>&1); then
    echo "$answer" >&2
    if [[ $answer == *conflict* ]]; then
        cat >&2 << END
make install: somebody else has changed what these conflicts name, by hand perhaps; the other objects were applied.
See what would change:  $* diff --server-side --force-conflicts -f $file
Take it back:           $* apply --server-side --force-conflicts -f $file
END
    fi
    exit 1
fi
echo "$answer"
established=
for _ in 1 2 3; do
    sleep 1
    if "$@" wait --for=condition=Established --timeout=60s crd/jobsets.jobset.x-k8s.io; then established=1 && break; fi
done
[ -n "$established" ] || exit 1
fake=$("$@" get nodes -o jsonpath='{.items[*].metadata.annotations.kwok\.x-k8s\.io/node}' 2> /dev/null || true)
if [ -n "$fake" ]; then
    cat >&2 << 'END'
make install: nodes of this cluster are fake (kwok): a pod on one is said to run, but no image is pulled and no manager
runs in it. If all are, JobSets can be neither created nor changed now, for nothing answers the webhooks.
A manager on this machine with admission:     .venv/bin/jobset demo --keep
One without, beside what is installed here:   .venv/bin/jobset webhooks off && make run ARGS=--webhooks=false
END
fi
