"""No message for people has words of Python in it: types, memory addresses, names of exceptions, None and True."""

import asyncio
import itertools
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.features import FeatureGates
from api.gang_api import Served
from app.engine import engine
from app.settings import SettingsError
from app.settings_file import load as load_settings
from app.settings_file import parse
from certs.decision import decide_and_renew
from kube.config import load
from kube.errors import KubeconfigError, KubeError
from kube.model.jsontree import dig, set_in
from kube.resources import PODS
from kube.transport import HttpTransport, Request
from tests.app.test_settings import HEAD
from tests.kube.test_config import write
from tests.support.bad_certificates import BAD
from tests.support.corpus.manifests import cases
from tests.support.documents import read
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.serving import LOCAL
from tests.support.tls import HOSTS, context_with, fresh, material

PYTHON = re.compile(
    r"<[\w.]+ object|object at 0x|'\w+' object|NoneType|Traceback|\bErrno\b|sub-exception|pydantic|msgspec|errors\.pydantic"
    r"|_ssl\.c|`(?:str|int|bool|float)`|\b(?:[A-Z][a-z]+)+(?:Error|Exception)\b|\b(?:None|True|False)\b|\bdict\b|\bstr\b|\btuple\b|\bclass '"
    r"|\b[A-Z]\w*\(\w+=|<[A-Z]\w+: |, message='|\d{4}-\d\d-\d\d \d\d:\d\d"
)
OURS = "clusterIP: None"
"""A value of Kubernetes that looks like one of Python."""
WRONG = ["x", "", 3, -1, 2**70, 1.5, True, None, [], [None], ["x"], [{}], {}, {"x": None}, {"x": {"y": 1}}]
RICH = stored(
    jobset(
        rjob("a"),
        rjob("b", dependsOn=[{"name": "a", "status": "Ready"}]),
        failurePolicy={"maxRestarts": 1, "rules": [{"name": "r", "action": "FailJobSet", "onJobFailureReasons": []}]},
        successPolicy={"operator": "All"},
        network={"subdomain": "net"},
        coordinator={"replicatedJob": "a"},
        volumeClaimPolicies=[{"templates": [{"metadata": {"name": "c"}, "spec": {}}]}],
    )
)


def check(message: str) -> None:
    assert PYTHON.search(message.replace(OURS, "")) is None, message


def places(node: Any, *at: str | int) -> Iterator[tuple[str | int, ...]]:
    """Every place in a tree."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inner:
        yield (*at, key)
        yield from places(value, *at, key)


def test_of_the_corpus():
    checks = [(engine(FeatureGates(case.gates)), case) for case in cases("bad")]
    found = [
        (
            judge.findings_about_new(case.manifest)
            if case.old is None
            else judge.findings_about_update(case.old, case.manifest)
        )
        for judge, case in checks
    ]
    messages = [str(error) for each in found for error in (*each.errors, *each.warnings)]
    assert len(messages) > 200
    for message in messages:
        check(message)


@pytest.mark.no_cover
@pytest.mark.parametrize("gates", [{}, {"AllAlpha": True}], ids=["default", "alpha"])
def test_of_any_wrong_value_at_any_place_of_a_jobset(gates: dict[str, bool]):
    judge, messages = engine(FeatureGates(gates)), set()
    for place in places(RICH):
        for value in WRONG:
            if value == dig(RICH, *place):
                continue
            wrong: JSON = set_in(RICH, place, value)
            for found in (judge.findings_about_new(wrong), judge.findings_about_update(RICH, wrong)):
                messages |= {str(error) for error in (*found.errors, *found.warnings)}
    assert len(messages) > 300
    for message in messages:
        check(message)


@pytest.mark.parametrize("value", [each for each in WRONG if each != {}], ids=repr)
def test_of_any_wrong_value_at_any_place_of_the_configuration(value: Any):
    whole = yaml.safe_load(HEAD) | {
        "webhook": {"port": 1, "host": "h", "workers": 1},
        "leaderElection": {"leaderElect": True, "leaseDuration": "15s", "resourceLock": "leases"},
        "metrics": {"bindAddress": ":1"},
        "tls": {"minVersion": "VersionTLS12", "cipherSuites": []},
        "featureGates": {"RestartJob": True},
        "limits": {"jobsPerSet": 1},
        "clientConnection": {"qps": 1.0, "burst": 1},
    }
    for place in places(whole):
        try:
            parse(yaml.safe_dump(set_in(whole, place, value)))
        except SettingsError as error:
            check(str(error))


@pytest.mark.parametrize(
    "text", ["a: [", "a: b: c", "a: *x", "a: !!int x", "\x07", '{"a": ', "- 1", "3", "", "a: &x [*x]", "{{ x }}"]
)
def test_of_files_that_cannot_be_read(text: str, tmp_path: Path):
    for document in read(text):
        for fault in document.faults:
            check(str(fault.error))
    with pytest.raises(SettingsError) as caught:
        parse(text)
    check(str(caught.value))
    with pytest.raises(SettingsError) as caught:
        load_settings(str(tmp_path / "missing"))
    check(str(caught.value))


async def kubeconfig_says(path: Path) -> str:
    with pytest.raises(KubeconfigError) as caught:
        await load(str(path))
    return str(caught.value)


async def test_of_kubeconfigs(tmp_path: Path):
    good = yaml.safe_load(write(tmp_path / "good").read_text())
    wrong = tmp_path / "wrong"
    for text in ("hello: [", "3", "", "[]"):
        wrong.write_text(text)
        check(await kubeconfig_says(wrong))
    check(await kubeconfig_says(tmp_path / "missing"))
    for place in places(good):
        for value in ("", 3, None, ["x"]):
            wrong.write_text(yaml.safe_dump(set_in(good, place, value)))
            try:
                await load(str(wrong))
            except KubeconfigError as error:
                check(str(error))


async def asked(config: Path) -> str:
    """What is said about an API server that cannot be asked."""
    transport = HttpTransport(await load(str(config)), user_agent="x")
    try:
        with pytest.raises(KubeError) as caught:
            await transport.send(Request(method="GET", path=f"/api/v1/{PODS.plural}", verb="list", timeout=5))
    finally:
        await transport.close()
    return str(caught.value)


async def test_of_api_servers_that_cannot_be_reached(tmp_path: Path):
    with socket.create_server(LOCAL) as closed:
        port = closed.getsockname()[1]
    ca = tmp_path / "ca.crt"
    ca.write_bytes(material().authorities)
    trusting = {"certificate-authority": str(ca)}
    refused = await asked(write(tmp_path / "a", server=f"https://127.0.0.1:{port}", cluster=trusting))
    assert refused == f"list /api/v1/pods: cannot connect to 127.0.0.1:{port}: connection refused"


async def test_of_api_servers_that_do_not_speak_as_expected(tmp_path: Path):
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    plain = await asyncio.start_server(hang_up, *LOCAL)
    secure = await asyncio.start_server(hang_up, *LOCAL, ssl=context_with(material()))
    async with plain, secure:
        ports = [server.sockets[0].getsockname()[1] for server in (plain, secure)]
        said = [
            await asked(write(tmp_path / "a", server=f"http://127.0.0.1:{ports[0]}")),
            await asked(write(tmp_path / "b", server=f"https://127.0.0.1:{ports[0]}")),
            await asked(write(tmp_path / "c", server=f"https://127.0.0.1:{ports[1]}")),
        ]
    for message in said:
        check(message)
    assert "the connection broke: " in said[0]
    assert "its certificate cannot be verified: " in said[2]


@pytest.mark.parametrize("length", ["Transfer-Encoding: chunked", "Content-Length: 9"])
async def test_of_api_servers_that_go_away_in_the_middle_of_an_answer(tmp_path: Path, length: str):
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\n{length}\r\n\r\n5\r\n".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(cut, *LOCAL) as server:
        said = await asked(write(tmp_path / "a", server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    check(said)
    assert said == "list /api/v1/pods: the connection broke: the answer ended in the middle"


def test_of_certificates_that_have_to_be_renewed():
    for bad in BAD.values():
        check(decide_and_renew(bad.material, HOSTS, fresh())[0].reason)


@pytest.mark.parametrize("known", list(itertools.product([None, False, True], repeat=3)), ids=repr)
def test_of_what_is_served_for_groups(known: tuple[bool | None, ...]):
    check(str(Served(True, *known)))
