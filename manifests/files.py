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


def _in_api_server() -> dict[str, str]:
    """The overlays with policies in the place of the webhooks of pods.

    The policies are bases of their own, because they are applied first when they replace the webhooks.
    """
    webhook = {"service": [webhook_service()], "configurations": webhook_configurations(pods=False)}
    above = ["crd", "rbac", "manager"]
    return {
        **_folder("in-api-server/webhook", webhook),
        **_folder("in-api-server/policies", {"policies": pod_policies("gate")}),
        **_folder("in-api-server/without-manager/policies", {"policies": pod_policies("affinity")}),
        "in-api-server/kustomization.yaml": _kustomization(
            [*(f"../{base}" for base in above), "webhook", "policies"], images=_IMAGES
        ),
        "in-api-server/without-manager/kustomization.yaml": _kustomization(
            [*(f"../../{base}" for base in above), "../webhook", "policies"], images=_IMAGES
        ),
    }


def generated_files() -> dict[str, str]:
    """Every generated file but the chart's: path relative to this directory, and content.

    `kubectl apply -k` of the directory and `kubectl apply -f` of install.yaml install the same objects.
    """
    groups: dict[str, dict[str, list[Object]]] = {
        "crd": {f"{PLURAL}.{GROUP}": [crd()]},
        "rbac": {"rbac": rbac_objects()},
        "manager": {"namespace": [namespace()], "manager": manager_objects()},
        "webhook": {"service": [webhook_service()], "configurations": webhook_configurations()},
    }
    files = {path: text for group, parts in groups.items() for path, text in _folder(group, parts).items()}
    files["kustomization.yaml"] = _kustomization(list(groups), images=_IMAGES)
    files["install.yaml"] = _render(install_objects())
    # Not among the groups: a cluster without policies does without their CRD.
    policies = _folder(
        "policy",
        {
            f"{policy.PLURAL}.{policy.GROUP}": [policy_crd()],
            f"{EXCEPTION_PLURAL}.{policy.GROUP}": [exception_crd()],
            "rbac": policy_rbac_objects(),
            "configurations": policy_webhook_configurations(),
        },
    )
    # Nor this: reports are written only if the manager's configuration says so.
    reports = _folder("policy-reports", {"rbac": policy_report_rbac_objects()})
    # Nor these: they are rights to read what is not the manager's.
    references = _folder("references", {"config-maps": config_map_rbac_objects(), "secrets": secret_rbac_objects()})
    # Nor this: it is a right over every request to the API server.
    in_api_server = _folder("policy-in-api-server", {"rbac": policy_api_server_rbac_objects()})
    # Nor this: it is about in-place restarts only.
    agents = _folder("in-place-restart", {"policy": agent_policy()})
    # Nor this: without it the label is nobody's.
    reserved = _folder("reserved-label", {"policies": reserved_label_policies()})
    # Nor this: a cluster without the Prometheus Operator has no such kind.
    alerts = _folder("prometheus", {"alerts": [prometheus_rule()]})
    files["kube-state-metrics/config.yaml"] = _render([state_metrics()])
    apart = policies | reports | references | agents | in_api_server | reserved | alerts | _in_api_server()
    return dict(sorted((files | apart).items()))


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
