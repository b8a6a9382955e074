"""What both Python clients say where there are no credentials, or no API server answers: file, address, why, what to do."""

import base64
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobset_client import connections, errors
from kube.model.jsontree import set_in
from tests.app.test_words_of_messages import PYTHON, places
from tests.clients.test_clients import Served, served, serving
from tests.support.kubeconfigs import kubeconfig
from tests.support.python_clients import CLIENTS, Face
from tests.support.serving import LOCAL
from tests.support.tls import context_with, material

__all__ = ["served"]
PACKAGES = re.compile(r"ConnectionPool|Max retries|\[Errno|HTTPConnection|Connect call|\bssl:|<\w+ \w+|urllib3|aiohttp")
ADDRESS = "check the server's address in the kubeconfig, and that the API server can be reached from here (VPN, proxy)"
NOWHERE = "give kubeconfig=..., set KUBECONFIG or run in a cluster"


@pytest.fixture(params=CLIENTS.values(), ids=CLIENTS.keys())
def face(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Face]:
    """Outside of a cluster, without kubeconfig."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return request.param


def said(client: Face, kind: type[errors.JobSetError]) -> str:
    with pytest.raises(kind) as caught:
        client.get("train")
    assert type(caught.value) is kind
    message = str(caught.value)
    assert PYTHON.search(message) is None, message
    assert PACKAGES.search(message) is None, message
    return message


def unreached(face: type[Face], folder: Path, server: str, **more: Any) -> str:
    message = said(face(kubeconfig=kubeconfig(folder, server, **more)), errors.UnreachableError)
    begin = f"cannot get JobSet team-a/train: cannot connect to {server}: "
    return message.removeprefix(begin)


def test_a_port_where_nobody_listens(face: type[Face], tmp_path: Path):
    with socket.create_server(LOCAL) as closed:
        port = closed.getsockname()[1]
    for scheme in ("http", "https"):
        assert unreached(face, tmp_path, f"{scheme}://127.0.0.1:{port}") == f"connection refused; {ADDRESS}"


def test_a_server_whose_name_is_not_known(face: type[Face], tmp_path: Path):
    words = unreached(face, tmp_path, "https://nowhere.invalid:6443")
    assert words.endswith(f"; {ADDRESS}")
    assert re.match(r"[a-z ,]*(name|address)[a-z ,]*;", words), words


def test_a_server_that_another_authority_has_certified(face: type[Face], tmp_path: Path):
    with serving(context_with(material())) as server:
        words = unreached(face, tmp_path, server.address, authorities=material().authorities)
    assert words.startswith("its certificate cannot be verified: ")
    assert words.endswith("; the certificate-authority in the kubeconfig has to be that of this server")


@contextmanager
def answering(*answers: bytes) -> Iterator[str]:
    """A server that says these in turn to whoever connects, at last always the last one, and hangs up."""
    turns = chain(answers, repeat(answers[-1]))
    with socket.create_server(LOCAL) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(next(turns))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("answer", [b"", b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
def test_a_server_that_hangs_up_or_speaks_another_language(face: type[Face], tmp_path: Path, answer: bytes):
    with answering(answer) as address:
        words = unreached(face, tmp_path, f"http://{address}")
    message = (
        f"cannot get JobSet team-a/train: the connection to http://{address} broke; check the network, and try again"
    )
    assert words == message


def test_a_server_without_tls(face: type[Face], tmp_path: Path):
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        words = unreached(face, tmp_path, f"https://{address}")
    assert re.fullmatch(rf"TLS: [a-z ]+; {re.escape(ADDRESS)}", words), words


def test_a_watch_that_breaks_off_is_said(face: type[Face], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("jobset_client.watching.MAX_FAILURES", 0)
    chunk = b'{"metadata": {"resourceVersion": "1"}, "items": []}'
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    whole = b"%b%x\r\n%b\r\n0\r\n\r\n" % (head, len(chunk), chunk)
    with answering(whole, head + b"ff\r\n{") as address:
        server = f"http://{address}"
        with pytest.raises(errors.UnreachableError) as caught:
            face(kubeconfig=kubeconfig(tmp_path, server)).first("watch", 1)
    assert str(caught.value) == (
        f"cannot go on with the watch: the connection to {server} broke; check the network, and try again"
    )


def test_credentials_that_the_server_refuses(face: type[Face], served: Served, tmp_path: Path):
    served.say({"kind": "Status", "message": "Unauthorized", "reason": "Unauthorized"}, 401)
    assert said(face(kubeconfig=kubeconfig(tmp_path, served.address)), errors.UnauthorizedError) == (
        f"cannot get JobSet team-a/train at {served.address}: Unauthorized;"
        " log in again: the kubeconfig's credentials are missing or no longer valid"
    )


def test_a_password_in_the_address_is_not_shown():
    assert (
        connections.without_credentials("https://me:s3cret@api.example.com:6443/x?token=y")
        == "https://api.example.com:6443"
    )


@pytest.mark.parametrize("authorities", [b"hello", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_an_authority_that_is_no_certificate(face: type[Face], tmp_path: Path, authorities: bytes):
    file = kubeconfig(tmp_path, "https://127.0.0.1:9", authorities=authorities)
    words = said(face(kubeconfig=file), errors.CredentialsError)
    assert words.startswith(f"kubeconfig {file}, context 'x': certificate authority unusable: ")


def test_a_client_certificate_that_is_none(face: type[Face], tmp_path: Path):
    wrong = base64.b64encode(b"hello").decode()
    user = {"client-certificate-data": wrong, "client-key-data": wrong}
    file = kubeconfig(tmp_path, "https://127.0.0.1:9", **user)
    words = said(face(kubeconfig=file), errors.CredentialsError)
    assert words.startswith(f"kubeconfig {file}, context 'x': client certificate or its key unusable: ")


@pytest.mark.parametrize("user", [{"as": "alice"}, {"as-groups": ["team-a"]}])
def test_who_acts_for_another_user_is_refused(face: type[Face], tmp_path: Path, user: Any):
    """The Kubernetes packages pass over it: the rights would be those of the user behind it."""
    file = kubeconfig(tmp_path, "https://127.0.0.1:9", token="t", **user)
    assert said(face(kubeconfig=file), errors.CredentialsError) == (
        f"kubeconfig {file}, context 'x': impersonation (`as`) is not supported; use that user's own credentials"
    )


@pytest.mark.parametrize("command", ["false", "no-such-plugin"])
def test_a_plugin_that_gives_nothing(face: type[Face], tmp_path: Path, command: str):
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "interactiveMode": "Never"}
    file = kubeconfig(tmp_path, "https://127.0.0.1:9", exec=plugin)
    assert said(face(kubeconfig=file), errors.CredentialsError) == (
        f"kubeconfig {file}, context 'x': exec plugin {command!r} gave neither token nor certificate:"
        " run it by hand to see why"
    )


def test_no_kubeconfig_at_all(face: type[Face]):
    assert said(face(), errors.CredentialsError) == f"kubeconfig ~/.kube/config: no such file; {NOWHERE}"


def test_files_that_cannot_be_read_are_named(face: type[Face], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    missing = str(tmp_path / "none")
    assert said(face(kubeconfig=missing), errors.CredentialsError) == f"kubeconfig {missing}: no such file; {NOWHERE}"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path))
    assert said(face(), errors.CredentialsError) == f"kubeconfig {tmp_path}: is a directory; {NOWHERE}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a kubeconfig: it must be a mapping"),
        ("a: b\nc: d: e", "not YAML: line 2, column 5: mapping values are not allowed here"),
        ("[]", "not a kubeconfig: it must be a mapping"),
        ("contexts: 3", "not a kubeconfig: contexts must be a list"),
        ("contexts: [{}]", "not a kubeconfig: contexts[0] must have a name"),
        ("clusters: [{name: a, cluster: {server: 3}}]", "not a kubeconfig: clusters[0].cluster.server must be a text"),
        (
            "contexts: [{name: b}, {name: a}]",
            "it has no current-context, and no other was chosen: give context=... (the file has: a, b)",
        ),
    ],
)
def test_a_kubeconfig_with_mistakes(face: type[Face], tmp_path: Path, text: str, words: str):
    file = tmp_path / "broken"
    file.write_text(text, encoding="utf-8")
    assert said(face(kubeconfig=str(file)), errors.CredentialsError) == f"kubeconfig {file}: {words}"


def test_a_context_that_there_is_not(face: type[Face], tmp_path: Path):
    file = kubeconfig(tmp_path, "https://127.0.0.1:9")
    words = said(face(kubeconfig=file, context="z"), errors.CredentialsError)
    assert words == f"kubeconfig {file}, context 'z': no such context (the file has: x, y)"


@pytest.mark.parametrize("value", ["", 3, None, ["x"]], ids=repr)
def test_any_wrong_value_at_any_place_of_a_kubeconfig(face: type[Face], tmp_path: Path, value: Any):
    good = yaml.safe_load(Path(kubeconfig(tmp_path, "http://127.0.0.1:9")).read_text(encoding="utf-8"))
    file = tmp_path / "wrong"
    for place in places(good):
        file.write_text(yaml.safe_dump(set_in(good, place, value)), encoding="utf-8")
        with pytest.raises((errors.CredentialsError, errors.UnreachableError)) as caught:
            face(kubeconfig=str(file)).get("train")
        assert PYTHON.search(str(caught.value)) is None, caught.value


def test_several_kubeconfigs_are_one(face: type[Face], served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "a").write_text("current-context: y", encoding="utf-8")
    several = [str(tmp_path / "a"), str(tmp_path / "none"), kubeconfig(tmp_path, served.address)]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(several))
    served.say({"metadata": {"name": "train"}})
    face().get("train")
    assert "/namespaces/team-b/" in served.asked[0][1]
