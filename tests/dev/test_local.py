"""kubectl against a local control plane."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dev.local import LocalError, kubectl


@pytest.fixture
def cluster(tmp_path: Path) -> Any:
    """A cluster whose kubectl hangs."""
    hanging = tmp_path / "kubectl"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    return SimpleNamespace(kubectl=hanging, kubeconfig=tmp_path / "kubeconfig")


def test_a_call_that_hangs_is_an_error_in_words(cluster: Any):
    with pytest.raises(LocalError, match=r"kubectl get jobsets did not end within 0\.1 s"):
        kubectl(cluster, "get", "jobsets", timeout=0.1)
