"""The manifests of frameworks are admitted as they are, ConfigMap and JobSet, without a warning about the JobSet."""

import pytest

from cli.init.cli import FRAMEWORKS as INIT
from cli.main import main
from tests.support.cluster.local_pods import FRAMEWORKS
from tests.support.cluster.requests import kubectl


@pytest.mark.parametrize("file", FRAMEWORKS, ids=lambda file: file.stem)
def test_a_manifest_of_a_framework_is_admitted(server, ns, file):
    done = kubectl(server, "create", "--dry-run=server", "-f", str(file), namespace=ns)
    assert done.splitlines() == [
        f"configmap/{file.stem} created (server dry run)",
        f"jobset.jobset.x-k8s.io/{file.stem} created (server dry run)",
    ]


@pytest.mark.parametrize("framework", INIT)
def test_what_init_prints_is_admitted(server, ns, framework, capsys):
    assert main(["init", framework, "--nodes=8", "--gpus=8", "--name=train"]) == 0
    manifest = capsys.readouterr().out
    done = kubectl(server, "create", "--dry-run=server", "-f", "-", namespace=ns, stdin=manifest)
    assert done.splitlines() == [
        "configmap/train created (server dry run)",
        "persistentvolumeclaim/train-checkpoints created (server dry run)",
        "jobset.jobset.x-k8s.io/train created (server dry run)",
    ]
