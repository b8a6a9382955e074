#!/usr/bin/env bash
# The image without an image builder: the same steps into a scratch root, and the manager started from it as an
# unprivileged user who can write nothing in it.
#
#   docker/rootfs.sh build DIR             fill DIR, which must be empty or absent, for the Python of this machine
#   docker/rootfs.sh image DIR OUT         fill DIR with Python, too, as in the image (on Debian). Then write the image to
#                                          OUT/oci, an OCI image layout, and what is in it to OUT/jobset.{spdx,cdx}.json
#   docker/rootfs.sh agent DIR             the same for the in-place restart agent: DIR/agent.pyz
#   docker/rootfs.sh run DIR -- FLAGS...   start DIR/manager with the Go manager's flags
#
# `run` gives up root where it is started by root (user and group 65532, no capabilities, no way to regain them) and stays
# who it is elsewhere. That user has to be able to read the files it is told to, and the machine's Python. It can write to
# /tmp, as the pod can.
#
# `image` needs the environment of `make env`. Time, commit and repository of the image are SOURCE_DATE_EPOCH, REVISION and
# SOURCE. The same values and sources give the same bytes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage="usage: docker/rootfs.sh build DIR | docker/rootfs.sh image DIR OUT | docker/rootfs.sh agent DIR | docker/rootfs.sh run DIR -- FLAGS..."
user=65532

# Sets the caller's `root`.
start_in() {
    root=${1:?$usage}
    if [ -n "$(ls -A "$root" 2>/dev/null)" ]; then
        echo "rootfs.sh: $root is not empty; remove it or name another directory" >&2
        exit 1
    fi
    mkdir -p "$root"
    root=$(cd "$root" && pwd)
}

# Sets the caller's `root`.
build() {
    start_in "$@"
    "$here/build-steps.sh" dependencies "$root"
    "$here/build-steps.sh" program "$root"
    echo "built $root: start it with docker/rootfs.sh run $root -- --help"
}

image() {
    local root out=${2:?$usage} python=$here/../.venv/bin/python
    if ! [ -x "$python" ]; then
        echo "rootfs.sh: there is no $python; make it with make env" >&2
        exit 1
    fi
    build "$1"
    "$here/build-steps.sh" interpreter "$root"
    mkdir -p "$out"
    out=$(cd "$out" && pwd)
    cd "$here/.."
    "$python" -m dev.hack.sbom "$root" "$out"
    "$python" -m dev.hack.image_layout "$root" "$out/oci"
}

agent() {
    local root
    start_in "$@"
    "$here/build-steps.sh" agent "$root"
    echo "built $root: start it with python3 -IBS $root/agent.pyz --help"
}

run() {
    local root=${1:?$usage} as=() python
    shift
    [ "${1:-}" != -- ] || shift
    if ! [ -x "$root/manager" ]; then
        echo "rootfs.sh: there is no manager in $root; make it with docker/rootfs.sh build $root" >&2
        exit 1
    fi
    if [ "$(id -u)" = 0 ]; then
        as=(setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all)
    fi
    # By way of env: what setpriv starts itself is still looked up with the rights that are being given up.
    python=$(sed -n '1s/^#!\([^ ]*\).*/\1/p' "$root/manager")
    if ! ${as[@]+"${as[@]}"} env "$python" -IBSc 'import sys; open(sys.argv[1])' "$root/manager"; then
        echo "rootfs.sh: user ${as[2]:-$(id -u)} cannot use $root/manager with $python; make both readable for him" >&2
        exit 1
    fi
    exec ${as[@]+"${as[@]}"} env HOME=/tmp "$root/manager" "$@"
}

case ${1:-} in
build | image | agent | run) "$@" ;;
*) echo "$usage" >&2 && exit 2 ;;
esac
