"""What a test costs is counted, that of processes which it leaves running included."""

import subprocess
import sys

from tests.support.processor_time import seconds

BURN = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint('burnt', flush=True)\nsys.stdin.read()"


def test_descendants_that_run_and_that_are_over_count():
    before = seconds()
    command = [sys.executable, "-c", f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603 - Python itself
        assert process.stdout is not None
        process.stdout.readline()
        running = seconds()
        assert running - before > 0.25
        process.communicate()
    assert seconds() >= running - 0.02
