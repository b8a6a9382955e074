"""The program of examples/wait-for-names.yaml ends when the DNS answers with what it has learned after the start."""

import io
import struct
import sys
from types import SimpleNamespace
from typing import Self

import pytest

from tests.support.cluster.local_pods import objects
from tests.support.pages.files import ROOT

[CONFIG] = objects(ROOT / "examples/wait-for-names.yaml", "ConfigMap")
PROGRAM = CONFIG["data"]["wait.py"]
RESOLV = "search team-a.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\n"
TTL = 30


class Dns:
    """A name server and the clock. `cached`: for how many seconds it still has the answer from before the start.

    `absent`: for how many seconds it knows no such name.
    """

    def __init__(self, cached: int = 0, absent: int = 0, *, caches: bool = True, short: bool = True) -> None:
        self.now = 0.0
        self._cached, self._absent, self._caches, self._short = cached, absent, caches, short
        self.asked: set[bytes] = set()

    def settimeout(self, _: float) -> None:
        pass

    def sendto(self, query: bytes, to: tuple[str, int]) -> None:
        assert to == ("10.96.0.10", 53)
        self._query = query
        self.asked.add(query[12:-5])

    def recv(self, _: int) -> bytes:
        question = self._query[12:]
        found = self.now >= self._absent
        age = self.now - self._cached
        left = TTL if not self._caches else -age if age < 0 else TTL - age % TTL
        name = b"\xc0\x0c" if self._short else question[:-4]
        answer = name + struct.pack(">HHIH4B", 1, 1, int(left), 4, 10, 244, 1, 7)
        return self._query[:6] + struct.pack(">3H", found, 0, 0) + question + (answer if found else b"")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def seconds(dns: Dns, monkeypatch: pytest.MonkeyPatch) -> float:
    """For how long the program waits for two names."""

    def sleep(pause: float) -> None:
        dns.now += pause

    modules = {
        "time": SimpleNamespace(monotonic=lambda: dns.now, sleep=sleep),
        "socket": SimpleNamespace(socket=lambda **_: dns, SOCK_DGRAM=2),
    }
    with monkeypatch.context() as patch:
        patch.setenv("HOSTS", "train-workers-0-0.train,train-workers-0-1.train")
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        exec(PROGRAM, {"open": lambda _: io.StringIO(RESOLV)})  # noqa: S102 - an example of ours
    assert dns.asked == {
        b"\x11train-workers-0-%d\x05train\x06team-a\x03svc\x07cluster\x05local" % index for index in (0, 1)
    }
    return dns.now


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize(
    ("dns", "least", "most"),
    [
        pytest.param({"caches": False}, 0, 3, id="nothing is cached"),
        pytest.param({"cached": 20}, 20, 24, id="an answer from before the start"),
        pytest.param({"cached": 8, "absent": 8}, 8, 12, id="no such name at first"),
        pytest.param({"absent": 1000}, 60, 62, id="a pod that does not come"),
    ],
)
def test_it_waits_until_the_answers_are_newer_than_its_start(dns, least, most, short, monkeypatch):
    assert least <= seconds(Dns(**dns, short=short), monkeypatch) <= most
