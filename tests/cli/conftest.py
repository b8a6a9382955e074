"""What tests of the command line share."""

import argparse
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from authoring.server_checks import ServerChecks
from cli import main as cli
from cli import session
from kube.client import Client
from tests.support.model.fake_cluster import Cluster

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session", autouse=True)
def _no_translations() -> Iterator[None]:
    """For each text of a parser argparse looks for a translation on the disk: a quarter of the time of a command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse, "_", str)
        yield


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `jobset` with the arguments; gives exit code, standard output and error."""

    def run(*args: str) -> tuple[int, str, str]:
        try:
            code = cli.main(args)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes a text, or an object as YAML, into the current directory; gives the file's name."""
    monkeypatch.chdir(tmp_path)

    def write_(body: dict | str, name: str = "f.yaml") -> str:
        text = body if isinstance(body, str) else yaml.safe_dump(body)
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
        return name

    return write_


class Tool:
    """Runs `jobset policy` with files in the current directory."""

    def __init__(self, command: Command, write: Callable[..., str]) -> None:
        self.command, self._write = command, write

    def __call__(self, *args: str) -> tuple[int, str, str]:
        return self.command("policy", *args)

    def put(self, name: str, *documents: dict[str, Any]) -> str:
        """Writes the documents into a file; gives its name."""
        return self._write("\n---\n".join(json.dumps(document, indent=1) for document in documents), name)

    def eval(
        self, jobset: dict[str, Any], *policies: dict[str, Any], flags: Sequence[str] = ()
    ) -> tuple[int, str, str]:
        return self("eval", "-f", self.put("set.yaml", jobset), "-p", self.put("p.yaml", *policies), *flags)

    def test(self, *documents: dict[str, Any], flags: Sequence[str] = ()) -> tuple[int, str, str]:
        return self("test", *flags, self.put("s.yaml", *documents))

    def export(self, *policies: dict[str, Any], flags: Sequence[str] = ()) -> tuple[int, str, str]:
        return self("export", "-p", self.put("p.yaml", *policies), *flags)


@pytest.fixture
def tool(command: Command, write: Callable[..., str]) -> Tool:
    return Tool(command, write)


@pytest.fixture
def validate(command: Command) -> Command:
    """Runs `jobset validate` with the arguments."""
    return partial(command, "validate")


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Cluster]:
    """Commands reach a cluster that answers from these objects; the namespace of the context is team-a."""

    def connect(*objects: dict[str, Any]) -> Cluster:
        cluster = Cluster(*objects)

        async def load(*_: object) -> SimpleNamespace:
            return SimpleNamespace(namespace="team-a", server="https://cluster")

        monkeypatch.setattr(session, "load", load)
        monkeypatch.setattr(session, "HttpTransport", lambda *_, **__: cluster)
        return cluster

    return connect


@pytest.fixture
def ask_server(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`jobset validate --server` asks this cluster."""

    def connect(cluster: Any, namespace: str = "") -> None:
        @contextlib.asynccontextmanager
        async def connected(*_: object) -> AsyncIterator[ServerChecks]:
            yield ServerChecks(Client(cluster), namespace)

        monkeypatch.setattr("cli.check.cluster.connect", connected)

    return connect
