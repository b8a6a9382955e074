"""Somebody who copies commands from the pages into a shell, in a folder and a namespace of their own."""

import atexit
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from dev.cluster.cluster import Cluster
from tests.support.cluster.requests import kubectl
from tests.support.installed import install_command
from tests.support.pages.files import ROOT

SECONDS = 60
SHELL = ("bash", "-e", "-u", "-o", "pipefail", "-c")
ASSIGNED = re.compile(r"\w+=\$?\(.*", re.DOTALL)
"""A command that is only an assignment: it counts for the commands after it, too."""
COPIED = ("charts", "examples", "manifests")


@cache
def installed_command() -> Path:
    """The `jobset` of the wheel, in an environment outside the clone, for as long as this process runs."""
    folder = tempfile.mkdtemp(prefix="jobset-installed-")
    atexit.register(shutil.rmtree, folder)
    return install_command(Path(folder))


@dataclass
class Reader:
    """`names` are words of the pages that stand for something, and what it is here."""

    cluster: Cluster
    namespace: str
    folder: Path
    names: Mapping[str, str] = field(default_factory=dict)
    _assigned: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the folder look like a clone of the repository, and a home, with the programs on the PATH."""
        for name in COPIED:
            shutil.copytree(ROOT / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        (self.folder / "bin").mkdir()
        (self.folder / "bin/kubectl").symlink_to(self.cluster.kubectl)
        (self.folder / "bin/jobset").symlink_to(installed_command())
        self.write(".curlrc", "silent\nfail\n")
        shutil.copy(self.cluster.kubeconfig, self.folder / "kubeconfig")
        where = ["--kubeconfig", str(self.folder / "kubeconfig"), "--current"]
        kubectl(self.cluster, "config", "set-context", *where, "--namespace", self.namespace)

    @property
    def env(self) -> dict[str, str]:
        """The environment of the shell."""
        return {
            **os.environ,
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "KUBEBUILDER_ASSETS": str(self.cluster.plan.binaries),
            "XDG_STATE_HOME": str(self.folder),
        }

    def write(self, name: str, text: str) -> None:
        """A file of the reader's own."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self, command: str, until: str = "") -> tuple[int, str]:
        """Exit code and output. With `until` the command goes on by itself: Ctrl-C when it has printed that."""
        text = command
        for name, stands_for in self.names.items():
            text = text.replace(name, stands_for)
        script = "\n".join([*self._assigned, text])
        if ASSIGNED.fullmatch(text):
            self._assigned.append(text)
        output = self.folder / "output"
        with output.open("wb") as file:
            shell = subprocess.Popen(  # noqa: S603 (the commands of our own pages)
                [*SHELL, script], cwd=self.folder, env=self.env, stdout=file, stderr=file,
                stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_ctrl_c_ends_it,  # noqa: PLW1509 (one call)
            )  # fmt: skip
            try:
                code = _interrupted(shell, output, until) if until else shell.wait(SECONDS)
            finally:
                if shell.poll() is None:
                    os.killpg(shell.pid, signal.SIGKILL)
                    shell.wait()
        return code, output.read_text(encoding="utf-8")


def _ctrl_c_ends_it() -> None:
    """In the shell: what runs in the background of a script, such as these tests in some places, ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupted(shell: subprocess.Popen[bytes], output: Path, until: str) -> int:
    deadline = time.monotonic() + SECONDS
    while not re.search(until, output.read_text(encoding="utf-8")):
        assert shell.poll() is None, f"ended with {shell.returncode}: {output.read_text(encoding='utf-8')}"
        assert time.monotonic() < deadline, f"{until!r} not in {output.read_text(encoding='utf-8')!r}"
        time.sleep(0.05)
    os.killpg(shell.pid, signal.SIGINT)
    return shell.wait(SECONDS)
