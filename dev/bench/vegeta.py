"""Builds the load generator of the benchmarks from its pinned module, once, and runs it.

Vegeta sends at a constant rate whatever the server does (an open loop): a server that stalls meets the requests that
came meanwhile, as it would in production, and the stall shows in the latencies. It must not decide what is sent.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.cluster.assets import default_cache_root, platform_name
from dev.cluster.build import find_go
from dev.cluster.errors import DevclusterError
from dev.cluster.progress import step

MODULE = Path(__file__).parent
PACKAGE = "github.com/tsenart/vegeta/v12"
MAX_WORKERS = 512
"""Requests on their way at most; a server that is this far behind has failed the benchmark anyway."""


@dataclass(frozen=True, slots=True)
class Target:
    """One POST; `name` says in reports what it stands for."""

    name: str
    url: str
    body: bytes

    def line(self) -> str:
        """As vegeta reads it: every line has to end, the last one too."""
        target = {
            "method": "POST",
            "url": self.url,
            "body": base64.b64encode(self.body).decode(),
            "header": {"Content-Type": ["application/json"]},
        }
        return json.dumps(target) + "\n"


def locate() -> Path:
    """The generator's binary, built and cached at the first call. Raises `DevclusterError`."""
    root = default_cache_root()
    pinned = b"".join((MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))
    key = hashlib.sha256(pinned + "-".join(platform_name()).encode()).hexdigest()[:16]
    binary = root / f"vegeta-{key}"
    if not binary.exists():
        root.mkdir(parents=True, exist_ok=True)
        with step("building the load generator"):
            _build(find_go(root), binary)
    return binary


def _build(go: Path, binary: Path) -> None:
    scratch = binary.with_suffix(f".{os.getpid()}.tmp")
    # The user's own flags, workspace or wish for another toolchain must not change what is built.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    answer = subprocess.run(  # noqa: S603 - go itself
        [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", scratch, PACKAGE],
        cwd=MODULE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise DevclusterError(
            f"the load generator ({PACKAGE}, pinned in {MODULE / 'go.mod'}) could not be built:\n"
            f"{answer.stderr[-1500:]}\nSet GOPROXY to a module proxy that this machine can reach."
        )
    scratch.rename(binary)


def attack(targets: Sequence[Target], *, rate: int, seconds: float, authorities: Path) -> dict[str, Any]:
    """Send the targets in turn at `rate` requests a second; returns vegeta's report (times in nanoseconds)."""
    binary = locate()
    attacking = [str(binary), "attack", "-format=json", f"-rate={rate}/1s", f"-duration={seconds}s", "-timeout=10s"]
    options = ["-http2=false", "-workers=32", f"-max-workers={MAX_WORKERS}", f"-root-certs={authorities}"]
    results = subprocess.run(  # noqa: S603 - the generator built above
        [*attacking, *options],
        input="".join(target.line() for target in targets).encode(),
        stdout=subprocess.PIPE,
        timeout=seconds + 60,
        check=True,
    )
    report = subprocess.run(  # noqa: S603
        [binary, "report", "-type=json"], input=results.stdout, stdout=subprocess.PIPE, timeout=60, check=True
    )
    summary: dict[str, Any] = json.loads(report.stdout)
    return summary
