"""The committed files: which object goes where, how it is written, and whether the committed state is current."""

import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from api.keys import GROUP, PLURAL
from manifests.admission import webhook_configurations
from manifests.chart.files import FOLDER, HANDWRITTEN, chart_files
from manifests.definition import crd, exception_crd, policy_crd
from manifests.naming import IMAGE_TAG
from manifests.objects import ROOT, objects
from manifests.policies import pod_policies
from manifests.text import HEADER, yaml_text
from manifests.workload import MANAGER, WEBHOOK_SERVICE, install_objects
from policy import kinds

CHART = FOLDER
_DIFF_LINES = 20
_TAG = re.compile(r"(?m)^( +(?:newTag: |image: jobset:))v\S+$")
_TAGGED = (
    MANAGER,
    "kustomization.yaml",
    "in-api-server/kustomization.yaml",
    "in-api-server/without-manager/kustomization.yaml",
)
"""Files that are written by hand, except for the version of the image."""


def generated_files(root: Path = ROOT) -> dict[str, str]:
    """Every generated file except those of the chart: path below `root`, and content.

    `kubectl apply -k` of the directory and `kubectl apply -f` of install.yaml install the same objects.
    """
    renderers = {
        "install.yaml": install_objects(),
        f"crd/{PLURAL}.{GROUP}.yaml": [crd()],
        f"policy/{kinds.PLURAL}.{kinds.GROUP}.yaml": [policy_crd()],
        f"policy/{kinds.EXCEPTION_PLURAL}.{kinds.GROUP}.yaml": [exception_crd()],
        "in-api-server/webhook/service.yaml": objects(WEBHOOK_SERVICE),
        "in-api-server/webhook/configurations.yaml": webhook_configurations(pods=False),
        "in-api-server/policies/policies.yaml": pod_policies("gate"),
        "in-api-server/without-manager/policies/policies.yaml": pod_policies("affinity"),
    }
    texts = {path: HEADER + "---\n".join(map(yaml_text, parts)) for path, parts in renderers.items()}
    return texts | {path: _TAG.sub(rf"\g<1>{IMAGE_TAG}", (root / path).read_text()) for path in _TAGGED}


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
    texts = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.yaml")}
    sources = frozenset(path for path, text in texts.items() if not text.startswith(HEADER))
    return (
        _Tree(root, "*.yaml", generated_files(root), sources),
        _Tree(folder, "*", chart_files(folder), HANDWRITTEN),
    )


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
    """For each generated file that is out of date: its path and the first lines of the diff."""
    diffs: dict[str, str] = {}
    for tree in _trees(root):
        for path, before, after in tree.compare():
            if before != after:
                old, new = (before or "").splitlines(), (after or "").splitlines()
                lines = difflib.unified_diff(old, new, "committed", "generated", "", "", 1, "")
                diffs[str(path.relative_to(root.parent))] = "\n".join(itertools.islice(lines, _DIFF_LINES))
    return diffs
