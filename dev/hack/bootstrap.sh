#!/usr/bin/env bash
# Makes the environment of the project in DIR from requirements.lock. Needs Python 3.11 or newer with venv, and a package
# index that pip reaches. uv is used when the machine has it, else it is installed into the environment first.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=${1:?usage: dev/hack/bootstrap.sh DIR}

find_python() {
    local name
    for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    echo "no Python 3.11 or newer found: install one, or name it with PYTHON=..." >&2
    exit 1
}

if ! [ -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    python=$(find_python)
    echo "making $venv with $("$python" --version)"
    if ! "$python" -m venv --clear "$venv"; then
        echo "cannot make a virtual environment: install venv for this Python (Debian and Ubuntu: apt install python3-venv)" >&2
        exit 1
    fi
fi

uv=$(command -v uv || true)
if [ -z "$uv" ]; then
    uv="$venv/bin/uv"
    wanted=$(sed -n 's/^uv==\([^ ;]*\).*/\1/p' requirements.lock)
    if [ "$("$uv" --version 2>/dev/null | cut -d' ' -f2)" != "$wanted" ]; then
        echo "installing uv $wanted into $venv"
        awk '/^[^ ]/ {on = /^uv==/} on' requirements.lock > "$venv/uv.lock"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$venv/uv.lock"
    fi
fi

export VIRTUAL_ENV=$PWD/$venv
echo "installing the locked dependencies"
"$uv" pip sync --quiet --require-hashes requirements.lock
"$uv" pip install --quiet --no-deps --no-build-isolation --editable . --editable clients/python
