"""The committed files are what the code generates, and `--check` says so when they are not."""

import json
import shutil
import socket
from functools import cache

import pytest
import yaml

from manifests import files, install_objects
from manifests.__main__ import main
from manifests.embedded import DEFINITIONS_FILE, ROOT_TYPES, trim
from manifests.text import HEADER


@pytest.fixture(scope="module", autouse=True)
def _generated_once_without_a_network():
    """What is generated is the same each time, and takes most of the time of a check."""

    def refuse(*args, **kwargs):
        raise AssertionError("the network was used")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        for name in ("generated_files", "chart_files"):
            patch.setattr(files, name, cache(getattr(files, name)))
        yield


@pytest.fixture
def copy(tmp_path):
    """A copy of the committed directories that may be spoilt."""
    root = tmp_path / "manifests"
    shutil.copytree(files.ROOT.parent / files.CHART, tmp_path / files.CHART)
    shutil.copytree(files.ROOT, root, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def loaded(path):
    return list(yaml.load_all(path.read_text(), yaml.CSafeLoader))


def test_committed_files_are_current():
    assert main(["--check"]) == 0


def test_check_shows_changed_files_and_leaves_them(copy, capsys):
    """Of one that differs in many lines it shows the first."""
    (copy / "install.yaml").write_text("kind: Other\n")
    path = copy / "in-api-server/webhook/service.yaml"
    path.write_text(path.read_text().replace("port: 443", "port: 444"))
    assert main(["--check"], copy) == 1
    shown = capsys.readouterr().out
    assert "manifests/in-api-server/webhook/service.yaml differs" in shown
    assert "-    port: 444" in shown
    assert "+    port: 443" in shown
    assert "2 file(s) out of date; run `make generate`" in shown
    assert len(shown.splitlines()) < 40
    assert "port: 444" in path.read_text()


def test_check_notices_missing_and_left_over_files(copy, capsys):
    (copy / "install.yaml").unlink()
    (copy / "rbac" / "old.yaml").write_text(f"{HEADER}kind: Old\n")
    (copy.parent / files.CHART / "templates" / "old.tpl").write_text("")
    assert main(["--check"], copy) == 1
    shown = capsys.readouterr().out
    assert "manifests/install.yaml" in shown
    assert "manifests/rbac/old.yaml" in shown
    assert "charts/jobset/templates/old.tpl" in shown


def test_writing_repairs_and_then_changes_nothing(copy, capsys):
    (copy / "install.yaml").unlink()
    (copy / "rbac" / "old.yaml").write_text(f"{HEADER}kind: Old\n")
    assert main([], copy) == 0
    assert capsys.readouterr().out.split() == ["manifests/install.yaml", "manifests/rbac/old.yaml"]
    assert main(["--check"], copy) == 0
    assert main([], copy) == 0
    assert capsys.readouterr().out == "", "what is written is named, and nothing was"


def test_install_yaml_is_install_objects():
    assert loaded(files.ROOT / "install.yaml") == install_objects()


APART = {
    "in-api-server", "in-place-restart", "kube-state-metrics", "policy", "policy-in-api-server", "policy-reports", "prometheus",
    "references", "reserved-label",
}  # fmt: skip
"""Folders that `kubectl apply -k manifests` does not install: the overlays, the CRD of policies, and what monitors."""
BASES = [p for p in files.ROOT.glob("*/*.yaml") if p.parent.name not in APART]


def test_bases_hold_the_objects_of_install_yaml():
    bases = [o for p in BASES if p.name != "kustomization.yaml" for o in loaded(p)]
    assert sorted(bases, key=json.dumps) == sorted(install_objects(), key=json.dumps)


def test_every_base_is_listed_in_its_kustomization():
    (top,) = loaded(files.ROOT / "kustomization.yaml")
    for folder in {p.parent for p in BASES}:
        assert folder.name in top["resources"]
        (kustomization,) = loaded(folder / "kustomization.yaml")
        assert sorted(kustomization["resources"]) == sorted(
            p.name for p in folder.glob("*.yaml") if p.name != "kustomization.yaml"
        )


def test_embedded_types_are_pinned_and_complete():
    data = json.loads(DEFINITIONS_FILE.read_text())
    assert data["kubernetes"] == "v1.37.1"
    assert trim(data["definitions"]) == data["definitions"]
    assert set(ROOT_TYPES.values()) <= data["definitions"].keys()
