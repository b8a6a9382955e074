#!/usr/bin/env bash
# Pins the base image by digest: looks up which image the tag in the Dockerfile names now, and writes that into it.
#
#   docker/pin-base.sh           unless it is pinned already; `make image` does this first
#   docker/pin-base.sh --again   take the newest image of the tag: `make base-image`
#
# Commit the change, so that all builds start from the same image. Needs docker with buildx, and the registry.
set -euo pipefail
cd "$(dirname "$0")"
base=$(sed -n 's/^ARG PYTHON_IMAGE=//p' Dockerfile)
tag=${base%@*}
if [ "$base" != "$tag" ] && [ "${1:-}" != --again ]; then
    exit 0
fi
digest=$(docker buildx imagetools inspect "$tag" --format '{{.Manifest.Digest}}')
if ! [[ $digest =~ ^sha256:[0-9a-f]{64}$ ]]; then
    echo "pin-base.sh: the registry gives no digest for $tag: $digest" >&2
    exit 1
fi
pinned=$(sed "s|^ARG PYTHON_IMAGE=.*|ARG PYTHON_IMAGE=$tag@$digest|" Dockerfile)
printf '%s\n' "$pinned" > Dockerfile
echo "docker/Dockerfile starts from $tag@$digest now: commit this"
