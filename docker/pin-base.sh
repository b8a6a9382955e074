#!/usr/bin/env bash
# `make base-image`: looks up which image the tag of the base image names now, and writes its digest into the Dockerfile.
# Commit the change, so that all builds start from the same image. Needs docker with buildx, and the registry.
set -euo pipefail
cd "$(dirname "$0")"
base=$(sed -n 's/^ARG PYTHON_IMAGE=//p' Dockerfile)
tag=${base%@*}
digest=$(docker buildx imagetools inspect "$tag" --format '{{.Manifest.Digest}}')
if ! [[ $digest =~ ^sha256:[0-9a-f]{64}$ ]]; then
    echo "pin-base.sh: the registry gives no digest for $tag: $digest" >&2
    exit 1
fi
pinned=$(sed "s|^ARG PYTHON_IMAGE=.*|ARG PYTHON_IMAGE=$tag@$digest|" Dockerfile)
printf '%s\n' "$pinned" > Dockerfile
echo "docker/Dockerfile starts from $tag@$digest now: commit this"
