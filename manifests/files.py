"""The committed files: which object goes where, how it is written, and whether the committed state is current."""

import difflib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api.keys import GROUP, PLURAL
from manifests.access import (
    config_map_rbac_objects,
    policy_api_server_rbac_objects,
    policy_rbac_objects,
    policy_report_rbac_objects,
    rbac_objects,
    secret_rbac_objects,
)
from manifests.admission import policy_webhook_configurations, webhook_configurations
from manifests.agents import agent_policy
from manifests.alerts import prometheus_rule
from manifests.chart.files import FOLDER, HANDWRITTEN, chart_files
from manifests.definition import crd, exception_crd, policy_crd
from manifests.naming import IMAGE_NAME, IMAGE_TAG, Object
from manifests.policies import pod_policies
from manifests.reserved import reserved_label_policies
from manifests.state_metrics import state_metrics
from manifests.text import HEADER, yaml_text
from manifests.workload import install_objects, manager_objects, namespace, webhook_service
from policy import types as policy
from policy.exception_types import EXCEPTION_PLURAL

ROOT = Path(__file__).parent
CHART = FOLDER
_DIFF_LINES = 20
_IMAGES = [{"name": IMAGE_NAME, "newName": IMAGE_NAME, "newTag": IMAGE_TAG}]


def _render(objects: list[Object]) -> str:
    return HEADER + "---\n".join(map(yaml_text, objects))


def _kustomization(resources: list[str], **more: Any) -> str:
    return _render(
        [{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"} | {"resources": resources} | more]
    )


def _folder(path: str, parts: dict[str, list[Object]]) -> dict[str, str]:
    """A kustomize base: a file for each part, and the kustomization that lists them."""
    files = {f"{path}/{name}.yaml": _render(objects) for name, objects in parts.items()}
    return files | {f"{path}/kustomization.yaml": _kustomization([f"{name}.yaml" for name in parts])}


def _installed_objects() -> dict[str, dict[str, list[Object]]]:
    """The bases that `kubectl apply -k manifests` installs: the files of each folder, and their objects."""
    return {
        "crd": {f"{PLURAL}.{GROUP}": [crd()]},
        "rbac": {"rbac": rbac_objects()},
        "manager": {"namespace": [namespace()], "manager": manager_objects()},
        "webhook": {"service": [webhook_service()], "configurations": webhook_configurations()},
    }


def _apart() -> dict[str, dict[str, list[Object]]]:
    """The bases that are installed apart, with why.

    Policies that replace the webhooks of pods are bases of their own, because they are applied before the rest.
    """
    return {
        # A cluster without policies does without their CRD.
        "policy": {
            f"{policy.PLURAL}.{policy.GROUP}": [policy_crd()],
            f"{EXCEPTION_PLURAL}.{policy.GROUP}": [exception_crd()],
            "rbac": policy_rbac_objects(),
            "configurations": policy_webhook_configurations(),
        },
        # Reports are written only if the manager's configuration says so.
        "policy-reports": {"rbac": policy_report_rbac_objects()},
        # Rights to read what is not the manager's.
        "references": {"config-maps": config_map_rbac_objects(), "secrets": secret_rbac_objects()},
        # A right over every request to the API server.
        "policy-in-api-server": {"rbac": policy_api_server_rbac_objects()},
        # About in-place restarts only.
        "in-place-restart": {"policy": agent_policy()},
        # Without it the label is nobody's.
        "reserved-label": {"policies": reserved_label_policies()},
        # A cluster without the Prometheus Operator has no such kind.
        "prometheus": {"alerts": [prometheus_rule()]},
        "in-api-server/webhook": {
            "service": [webhook_service()],
            "configurations": webhook_configurations(pods=False),
        },
        "in-api-server/policies": {"policies": pod_policies("gate")},
        "in-api-server/without-manager/policies": {"policies": pod_policies("affinity")},
    }


def generated_files() -> dict[str, str]:
    """Every generated file but the chart's: path relative to this directory, and content.

    `kubectl apply -k` of the directory and `kubectl apply -f` of install.yaml install the same objects.
    """
    files = {
        "install.yaml": _render(install_objects()),
        "kube-state-metrics/config.yaml": _render([state_metrics()]),
        "kustomization.yaml": _kustomization(list(_installed_objects()), images=_IMAGES),
    }
    for path, parts in (_installed_objects() | _apart()).items():
        files |= _folder(path, parts)
    above = ("crd", "rbac", "manager")
    for folder, up, webhook in (("", "../", "webhook"), ("without-manager/", "../../", "../webhook")):
        resources = [*(f"{up}{base}" for base in above), webhook, "policies"]
        files[f"in-api-server/{folder}kustomization.yaml"] = _kustomization(resources, images=_IMAGES)
    return dict(sorted(files.items()))


@dataclass(frozen=True, slots=True)
class _Tree:
    """A folder, which of its files are generated, and with which content."""

    folder: Path
    pattern: str
    content: dict[str, str]
    handwritten: frozenset[str] = frozenset()

    def compare(self) -> Iterator[tuple[Path, str | None, str | None]]:
        """Every generated file: its path, what is committed, and what is generated. None: there is no such file."""
        before = {str(p.relative_to(self.folder)) for p in self.folder.rglob(self.pattern) if p.is_file()}
        for name in sorted((before - self.handwritten) | self.content.keys()):
            path = self.folder / name
            yield path, path.read_text() if name in before else None, self.content.get(name)


def _trees(root: Path) -> tuple[_Tree, ...]:
    folder = root.parent / CHART
    return _Tree(root, "*.yaml", generated_files()), _Tree(folder, "*", chart_files(folder), HANDWRITTEN)


def write(root: Path = ROOT) -> list[str]:
    """Bring the files up to date, remove the ones no longer generated, and name what changed."""
    changed = []
    for tree in _trees(root):
        for path, before, after in tree.compare():
            if before == after:
                continue
            changed.append(str(path.relative_to(root.parent)))
            if after is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(after)
    return changed


def differences(root: Path = ROOT) -> dict[str, str]:
    """For each file that is not what would be generated: its path and the first lines of the diff."""
    diffs: dict[str, str] = {}
    for tree in _trees(root):
        for path, before, after in tree.compare():
            if before != after:
                old, new = (before or "").splitlines(), (after or "").splitlines()
                lines = difflib.unified_diff(old, new, "committed", "generated", "", "", 1, "")
                diffs[str(path.relative_to(root.parent))] = "\n".join(itertools.islice(lines, _DIFF_LINES))
    return diffs
