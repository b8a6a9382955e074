"""The program of each framework forms its group and ends: one process for each pod, as its JobSet starts it.

`make test-frameworks` runs these. The first run installs the frameworks, up to 6 GB, into the cache.
"""

import contextlib
import os
import tempfile
from pathlib import Path

import pytest

from tests.support.cluster.frameworks import SAYS, locate_environment
from tests.support.cluster.local_pods import FRAMEWORKS, objects, pods, rendered, running
from tests.support.cluster.requests import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not os.environ.get("FRAMEWORKS"), reason="make test-frameworks runs these: docs/frameworks.md"),
]


@pytest.mark.parametrize("file", FRAMEWORKS, ids=lambda file: file.stem)
def test_the_processes_form_one_group_and_end(file, capsys):
    path = locate_environment(file.stem)
    every = pods(rendered(file, capsys))
    [jobset] = objects(file, "JobSet")
    decide = jobset["spec"].get("successPolicy", {}).get("targetReplicatedJobs") or {pod.rjob for pod in every}
    deciding = [pod.host for pod in every if pod.rjob in decide]
    with tempfile.TemporaryDirectory(prefix="pods") as short, contextlib.ExitStack() as stack:
        folder = Path(short)
        started = "Ray runtime started" if file.stem == "ray" else ""
        processes = stack.enter_context(running(every, file, folder, path, started=started))

        def logs() -> str:
            return "\n".join(f"{log.name}:\n{log.read_text()[-2000:]}" for log in folder.glob("*.log"))

        wait_for(
            lambda: (
                all(processes[host].poll() is not None for host in deciding)
                or any(process.poll() for process in processes.values())
            ),
            timeout=300,
            what=f"{file.stem} has ended",
            last=logs,
        )
        assert {host: processes[host].returncode for host in deciding} == dict.fromkeys(deciding, 0), logs()
        assert [line for line in SAYS[file.stem] if line not in logs()] == [], logs()
