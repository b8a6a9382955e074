"""Hostile clients do what they are to do, to our own server and to one that is not there; reports of runs."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter

from dev.chaos import hostile, report
from tests.support.tls import context_with, material, serving, until
from tests.support.webhook_app import APP, PATHS, ask
from webhooks.jobset.handlers import VALIDATE_PATH

PAIR = material()


async def test_every_client_gets_to_the_server_and_is_gone_in_the_end(monkeypatch, caplog):
    monkeypatch.setattr(hostile, "EVERY", 0.02)
    monkeypatch.setattr(hostile, "PAUSE", 0.001)
    async with serving(APP, context_with(PAIR)) as server:
        ports = [hostile.Port("webhooks", server.port, PATHS[0], tls=True), hostile.Port("nobody", 1, "/")]
        made: Counter[str] = Counter()
        abuse = asyncio.create_task(hostile.abuse(ports, 60.0, 1, made))
        await until(lambda: made["webhooks"] >= len(hostile.CLIENTS), 60)
        abuse.cancel()
        await asyncio.wait({abuse})
        assert made["nobody"] == 0
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.close()
    assert "Traceback" not in caplog.text


async def test_the_costly_review_is_one_and_gets_a_verdict():
    body = b"".join(
        hostile.CLIENTS["many unknown names"](hostile.Port("webhooks", 1, VALIDATE_PATH), random.SystemRandom())
    )
    response = await ask(body.partition(b"\r\n\r\n")[2])
    assert not response["allowed"]
    assert "targetReplicatedJobs" in response["status"]["message"]


def results(**fields) -> dict:
    return {
        "seed": 7,
        "seconds": 1200.0,
        "faults": [{"kind": "kill"}, {"kind": "slow"}],
        "sets": 900,
        "sets_ended": 880,
        "restarts": 70,
        "jobs_created": 2000,
        "terms_of_lease": 9,
        "late_writes": {"patch jobs stored, it named the UID": 2, "create jobs refused with 409": 3},
        "hostile_connections": {"webhooks": 10, "probes": 20},
        "calm_admissions": 500,
        "calm_admission_p99_seconds": 0.123,
        "memory_mib": {},
        "violations": [],
    } | fields


def test_results_of_runs_become_a_table(tmp_path, monkeypatch, capsys):
    soak = results(seed=1, faults=[{"kind": "slow"}], memory_mib={"a": [100.0, 104.0], "b": [100.0, 99.0]})
    files = [tmp_path / "soak.json", tmp_path / "chaos.json"]
    for file, run in zip(files, (soak, results()), strict=True):
        file.write_text(json.dumps(run))
    monkeypatch.setattr(sys, "argv", ["report", *map(str, files)])
    report.main()
    heads, _, chaos, quiet = (line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines())
    assert dict(zip(heads, chaos, strict=True)) == {
        "Run": "chaos",
        "Seed": "7",
        "Minutes": "20",
        "Faults": "2",
        "Sets ended": "880 of 900",
        "Restarts": "70",
        "Jobs created": "2000",
        "Terms of the lease": "9",
        "Late writes stored, with a guard": "2",
        "Late writes refused": "3",
        "Hostile connections": "30",
        "p99 of admission": "0.12 s of 500",
        "Memory, most growth": "",
        "Violations": "0",
    }
    assert (quiet[0], quiet[heads.index("Memory, most growth")]) == ("soak", "+4%")
