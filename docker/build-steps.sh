#!/usr/bin/env bash
# The steps that turn this tree into the file systems of the manager and of the in-place restart agent. The Dockerfile
# runs them inside the image build and rootfs.sh runs them where there is no image builder, so that both make the same.
#
#   build-steps.sh dependencies ROOT   the locked run-time dependencies, hashes verified   -> ROOT/opt/jobset
#   build-steps.sh program ROOT        this project as a wheel, and the entry point        -> ROOT/opt/jobset, ROOT/manager
#   build-steps.sh agent ROOT          the agent in one file for any Python 3.10 or newer  -> ROOT/agent.pyz
#
# Needs Python 3.11 or newer with venv (PYTHON names another one) and a package index. Extension modules are for one
# Python: ROOT/manager names the one that was used, which is the first that everybody on the machine may run.
set -euo pipefail
cd "$(dirname "$0")/.."
step=${1:-} root=${2:?usage: build-steps.sh dependencies|program|agent ROOT}
builder=${PYTHON:-python3}
target=$root/opt/jobset
tools=$root.tools

# A Python in somebody's closed home directory cannot be started by the unprivileged user that the manager runs as.
find_python() {
    local name found first="" check='
import os, sys
def closed(path):
    return path != "/" and (not os.stat(path).st_mode & (0o001 if os.path.isdir(path) else 0o004)
                            or closed(os.path.dirname(path)))
found = os.path.realpath(sys._base_executable)
print(found)
sys.exit(sys.version_info < (3, 11) or closed(found) or closed(os.path.realpath(os.__file__)))'
    for name in "$builder" /usr/local/bin/python3 /usr/bin/python3; do
        found=$("$name" -c "$check" 2>/dev/null) && echo "$found" && return
        first=${first:-$found}
    done
    echo "$first"
}
python=$(find_python)

# Nothing is installed that requirements.lock does not know by hash, the tools of the build included.
make_tools() {
    [ -x "$tools/bin/python" ] || "$builder" -m venv "$tools"
    uv=$(command -v uv || true)
    if [ -z "$uv" ]; then
        awk '/^[^ ]/ {on = /^uv==/} on' requirements.lock > "$tools/uv.lock"
        "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$tools/uv.lock"
        uv=$tools/bin/uv
    fi
}

locked() {
    "$uv" pip install --quiet --require-hashes --constraint requirements.lock "$@"
}

dependencies() {
    locked --python "$python" --target "$target" --compile-bytecode --requirements pyproject.toml --extra uvloop
}

program() {
    locked --python "$tools/bin/python" "$(sed -n 's/^\(hatchling==[^ ;]*\).*/\1/p' requirements.lock)"
    mkdir -p "$tools/wheel"
    "$uv" build --quiet --python "$tools/bin/python" --no-build-isolation --wheel --out-dir "$tools/wheel" .
    "$uv" pip install --quiet --python "$python" --target "$target" --compile-bytecode --no-deps "$tools"/wheel/*.whl
    cat > "$root/manager" <<ENTRY
#!$python -IBS
# Takes the Go manager's flags. -I and -S: neither the caller's environment and directory nor packages of the machine
# can change what is imported.
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "opt" / "jobset"))
from app.cli import main

sys.exit(main(["manager", *sys.argv[1:]]))
ENTRY
    chmod 755 "$root/manager"
    chmod -R a+rX,go-w "$root"
    rm -rf "$tools"
}

# Standard library only, so that it needs nothing but a Python: in an image of its own, or copied beside a worker.
agent() {
    local stage
    stage=$(mktemp -d)
    mkdir -p "$root" "$stage/agent"
    cp agent/*.py "$stage/agent/"
    "$builder" -m zipapp "$stage" --main agent.program:main --python '/usr/bin/env -S python3 -IBS' \
        --output "$root/agent.pyz"
    rm -r "$stage"
    chmod 755 "$root/agent.pyz"
}

case $step in
dependencies | program) make_tools && "$step" ;;
agent) agent ;;
*) echo "build-steps.sh: unknown step \`$step\`: use dependencies, program or agent" >&2 && exit 2 ;;
esac
