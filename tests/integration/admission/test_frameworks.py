"""The manifests of frameworks are admitted as they are, ConfigMap and JobSet, without a warning about the JobSet."""

from __future__ import annotations

import pytest

from tests.support.cluster.local_pods import FRAMEWORKS
from tests.support.cluster.requests import kubectl


@pytest.mark.parametrize("file", FRAMEWORKS, ids=lambda file: file.stem)
def test_a_manifest_of_a_framework_is_admitted(server, ns, file):
    done = kubectl(server, "create", "--dry-run=server", "-f", str(file), namespace=ns)
    assert done.splitlines() == [
        f"configmap/{file.stem} created (server dry run)",
        f"jobset.jobset.x-k8s.io/{file.stem} created (server dry run)",
    ]
