#!/usr/bin/env bash
# The steps that turn this tree into the file systems of the manager and of the in-place restart agent. The Dockerfile
# runs them inside the image build and rootfs.sh runs them where there is no image builder, so that both make the same.
#
#   build-steps.sh dependencies ROOT   the locked run-time dependencies, hashes verified   -> ROOT/opt/jobset
#   build-steps.sh program ROOT        this project as a wheel, two entry points           -> ROOT/opt/jobset, ROOT/manager, ROOT/jobset
#   build-steps.sh interpreter ROOT    Python, and the libraries of Debian that it needs   -> ROOT/usr, ROOT/lib, ROOT/etc
#   build-steps.sh agent ROOT          the agent in one file for any Python 3.10 or newer  -> ROOT/agent.pyz
#
# Needs Python 3.11 or newer with venv (PYTHON names another one) and a package index. Extension modules are for one
# Python: ROOT/manager names the one that was used, which is the first that everybody on the machine may run. The step
# `interpreter` needs Debian, where this is the Python of the image `python` or Debian's own.
#
# The same sources give the same files: bytecode names no folder of the builder, and is valid without looking at times.
set -euo pipefail
cd "$(dirname "$0")/.."
step=${1:-} root=${2:?usage: build-steps.sh dependencies|program|interpreter|agent ROOT}
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
    locked --python "$python" --target "$target" --requirements pyproject.toml --extra manager --extra uvloop
    rm -r "$target"/bin # commands start with the Python of PATH, which finds nothing here
}

compile_bytecode() {
    PYTHONHASHSEED=0 "$python" -ISm compileall -q -f --invalidation-mode unchecked-hash -s "$root" -p / "$1"
}

# entry_point NAME [ARGUMENTS]   -I and -S: neither the caller's environment and directory nor packages of the machine
# can change what is imported.
entry_point() {
    cat > "$root/$1" <<ENTRY
#!$python -IBS
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "opt" / "jobset"))
from cli.main import main

sys.exit(main([${2:-}*sys.argv[1:]]))
ENTRY
    chmod 755 "$root/$1"
}

program() {
    locked --python "$tools/bin/python" "$(sed -n 's/^\(hatchling==[^ ;]*\).*/\1/p' requirements.lock)"
    mkdir -p "$tools/wheel"
    "$uv" build --quiet --python "$tools/bin/python" --no-build-isolation --wheel --out-dir "$tools/wheel" .
    # A wheel of Python files is installed by unpacking it. An installer would add its own notes, with times and paths.
    "$tools/bin/python" -m zipfile -e "$tools"/wheel/*.whl "$target"
    compile_bytecode "$target"
    entry_point manager '"manager", ' # takes the Go manager's flags
    entry_point jobset
    chmod -R a+rX,go-w "$root"
    rm -rf "$tools"
}

# Of Debian's packages only the libraries that are needed, their licences, and what scanners read: no shell, no tool.
interpreter() {
    local stdlib unused name library package
    stdlib=$("$python" -ISc 'import sysconfig; print(sysconfig.get_path("stdlib"))')
    mkdir -p "$root/etc" "$root/tmp" "$root/var/lib/dpkg/status.d"
    chmod 1777 "$root/tmp"
    unused=(__pycache__ 'config-3*' curses dbm dist-packages ensurepip idlelib lib2to3 pydoc_data site-packages
        sitecustomize.py sqlite3 test tkinter turtle.py turtledemo venv
        lib-dynload/{_ctypes_test,_curses,_dbm,_gdbm,_sqlite3,_test,_tkinter,_xx,nis,ossaudiodev,readline,xx}'*')
    tar -C / -c "${unused[@]/#/--exclude=${stdlib#/}/}" --exclude=__pycache__ "${python#/}" "${stdlib#/}" |
        tar -C "$root" -x --no-same-owner
    compile_bytecode "$root$stdlib"

    find "$python" "$root" -type f \( -path "$python" -o -name '*.so*' \) -exec ldd {} + |
        awk '/=> \//{print $3} /^\t\//{print $1}' | grep -v "^$root/" | sort -u > "$root.libraries"
    while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done < "$root.libraries"
    # A file is known by its path before or after /lib became a link to /usr/lib; a Python that was built, not at all.
    while read -r name; do
        for name in "$name" "$(realpath "$name")" "/usr$name"; do
            dpkg-query -S "$name" 2> /dev/null && break
        done || true
    done < <(cat "$root.libraries" && ls "$python" "$stdlib"/{os.py,json/__init__.py}) |
        cut -d: -f1 | sort -u > "$root.packages"
    while read -r package; do
        dpkg-query -s "$package" > "$root/var/lib/dpkg/status.d/$package"
        mkdir -p "$root/usr/share/doc/$package"
        cp -L "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/"
    done < "$root.packages"
    rm "$root.libraries" "$root.packages"

    mkdir -p "$root/usr/share/doc/python"
    "$python" -ISc 'import platform; print(platform.python_version())' > "$root/usr/share/doc/python/version"
    cp /etc/os-release "$root/etc/"
    echo "nonroot:x:65532:65532::/tmp:/nonexistent" > "$root/etc/passwd"
    echo "nonroot:x:65532:" > "$root/etc/group"
    echo "hosts: files dns" > "$root/etc/nsswitch.conf"
    echo "/usr/local/lib" > "$root/etc/ld.so.conf"
    ldconfig -X -r "$root"
    rm -rf "$root/var/cache"
    chmod -R a+rX,go-w "$root"/[!t]*
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
interpreter | agent) "$step" ;;
*) echo "build-steps.sh: unknown step \`$step\`: use dependencies, program, interpreter or agent" >&2 && exit 2 ;;
esac
