"""Our CRDs through the validation of the API servers of older versions, CEL rules and their costs included.

What runs on the newest version only would be found by the first user of an older one: `namespace`, say, is a reserved
word of CEL before Kubernetes 1.32.
"""

import subprocess
from pathlib import Path

import pytest
import yaml

from manifests.objects import ROOT
from tests.support.programs.crdvalidator import OLDEST, VALIDATORS

CRDS = sorted(ROOT.glob("*/*.x-k8s.io.yaml"))


def faults(validator: Path, *crds: Path) -> list[str]:
    """What the API server of that version would refuse."""
    command = [validator, *crds]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.splitlines()  # noqa: S603 - built by us


def changed(folder: Path, before: str, after: str) -> Path:
    """The CRD of JobSets with another text in the place of one."""
    (source,) = (crd for crd in CRDS if crd.name.startswith("jobsets."))
    text = source.read_text()
    assert before in text
    (folder / "crd.yaml").write_text(text.replace(before, after))
    return folder / "crd.yaml"


def test_there_is_a_crd_of_each_kind() -> None:
    kinds = {yaml.safe_load(file.read_text())["spec"]["names"]["kind"] for file in CRDS}
    assert kinds == {"JobSet", "JobSetPolicy", "JobSetPolicyException"}


def test_the_oldest_version_takes_our_crds(oldest_crd_validator: Path) -> None:
    assert faults(oldest_crd_validator, *CRDS) == []


@pytest.mark.slow
def test_each_version_takes_our_crds(crd_validators: dict[str, Path]) -> None:
    refused = {version: faults(validator, *CRDS) for version, validator in crd_validators.items()}
    assert len(refused) == len(VALIDATORS) >= 7
    assert not any(refused.values()), refused


def test_a_word_that_is_reserved_there_is_found(oldest_crd_validator: Path, tmp_path: Path) -> None:
    found = faults(oldest_crd_validator, changed(tmp_path, "metadata.__namespace__", "metadata.namespace"))
    assert any("undefined field 'namespace'" in fault for fault in found), found


def test_a_rule_that_costs_too_much_is_found(oldest_crd_validator: Path, tmp_path: Path) -> None:
    rule = "self.all(a, self.all(b, self.all(c, a.name == b.name || b.name == c.name)))"
    found = faults(oldest_crd_validator, changed(tmp_path, "rule: self == oldSelf", f"rule: {rule}"))
    assert found != [], OLDEST
