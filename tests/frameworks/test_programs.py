"""The program of each framework forms its group and ends: one process for each pod, as its JobSet starts it.

`make test-frameworks` runs these. The first run installs the frameworks, up to 6 GB, into the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dev.cluster.assets import default_cache_root
from tests.support.cluster.local_pods import FRAMEWORKS, environment, objects, pods, rendered, running
from tests.support.cluster.requests import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not os.environ.get("FRAMEWORKS"), reason="make test-frameworks runs these: docs/frameworks.md"),
]

PACKAGES = {
    "jax": [("jax==0.10.2",)],
    "mpi": [("mpich==5.0.2", "mpi4py==4.1.2")],
    "ray": [("ray==2.60.0",)],
    "torch": [("torch==2.15.0", "numpy", "setuptools", "wheel"), ("deepspeed==0.19.8",)],
}
"""What images bring and commands install, in the order in which it is installed; DeepSpeed's build needs PyTorch."""

COMPILES = {
    "torch": (
        "from deepspeed.accelerator import get_accelerator;"
        " get_accelerator().create_op_builder('ShareMemCommBuilder').load()"
    )
}
"""Programs that compile what the first use of a package would: minutes, which are not those of the example."""

ENVIRONMENTS = {"deepspeed": "torch", "jax": "jax", "mpi": "mpi", "pytorch": "torch", "ray": "ray", "tpu": "jax"}

SAYS = {
    "deepspeed": [f"process {rank} of 4: 4 processes, loss" for rank in range(4)],
    "jax": [f"process {rank} of 4: 4 devices" for rank in range(4)],
    "mpi": [f"process {rank} of 4: the ranks add up to 6" for rank in range(4)],
    "pytorch": [f"process {rank} of 4: 4 processes, loss" for rank in range(4)],
    "ray": ["4 of 4 nodes: the squares add up to 1240"],
    "tpu": [f"process {rank} of 8: 8 devices" for rank in range(8)],
}


@pytest.fixture
def path(file: Path) -> Path:
    """The programs of an environment that has the packages; it is made once for each machine."""
    name = ENVIRONMENTS[file.stem]
    digest = hashlib.sha256(repr((PACKAGES[name], COMPILES.get(name))).encode()).hexdigest()[:8]
    folder = default_cache_root().with_name("jobset-frameworks") / f"{name}-{digest}"
    if not (folder / "complete").exists():
        uv = Path(sys.executable).with_name("uv")
        install = [uv, "pip", "install", "--quiet", "--no-build-isolation", "--python", folder / "bin/python"]
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)  # noqa: S603
        for packages in PACKAGES[name]:
            subprocess.run([*install, *packages], check=True)  # noqa: S603 - pinned above
        if name in COMPILES:
            compile_it = [folder / "bin/python", "-c", COMPILES[name]]
            subprocess.run(compile_it, env=os.environ | environment(folder / "bin"), check=True)  # noqa: S603
        (folder / "complete").touch()
    return folder / "bin"


@pytest.mark.parametrize("file", FRAMEWORKS, ids=lambda file: file.stem)
def test_the_processes_form_one_group_and_end(file, path, capsys):
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
