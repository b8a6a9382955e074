"""Writes the generated files, and finds committed files that are out of date."""

import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from api.keys import GROUP, PLURAL
from manifests.admission import webhook_configurations
from manifests.chart.files import CHART, HANDWRITTEN, chart_files
from manifests.definition import crd, exception_crd, policy_crd
from manifests.naming import IMAGE_TAG
from manifests.objects import ROOT, objects
from manifests.policies import pod_policies
from manifests.text import HEADER, yaml_text
from manifests.workload import MANAGER, WEBHOOK_SERVICE, install_objects
from policy import kinds

_DIFF_LINES = 20
_TAG = re.compile(r"(?m)^( +(?:newTag: |image: jobset:))v\S+$")
_FILES_WITH_TAG = (
    MANAGER,
    "kustomization.yaml",
    "in-api-server/kustomization.yaml",
    "in-api-server/without-manager/kustomization.yaml",
)
"""Files in which only the version of the image is generated."""


def generated_files(root: Path = ROOT) -> dict[str, str]:
    """The content of every generated file by path below `root`, without the files of the chart.

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
    return texts | {path: _TAG.sub(rf"\g<1>{IMAGE_TAG}", (root / path).read_text()) for path in _FILES_WITH_TAG}


@dataclass(frozen=True, slots=True)
class _Tree:
    """A folder with generated files. `content` has the generated files by path, `handwritten` the other paths."""

    folder: Path
    pattern: str
    content: dict[str, str]
    handwritten: frozenset[str] = frozenset()

    def compare(self) -> Iterator[tuple[Path, str | None, str | None]]:
        """Yield path, committed content and generated content of each file. None means that there is no such file."""
        committed = {str(p.relative_to(self.folder)) for p in self.folder.rglob(self.pattern) if p.is_file()}
        for name in sorted((committed - self.handwritten) | self.content.keys()):
            path = self.folder / name
            yield path, path.read_text() if name in committed else None, self.content.get(name)


def _trees(root: Path) -> tuple[_Tree, ...]:
    folder = root.parent / CHART
    texts = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.yaml")}
    sources = frozenset(path for path, text in texts.items() if not text.startswith(HEADER))
    return (
        _Tree(root, "*.yaml", generated_files(root), sources),
        _Tree(folder, "*", chart_files(folder), HANDWRITTEN),
    )


def write_files(root: Path = ROOT) -> list[str]:
    """Bring the files up to date, and remove files that are no longer generated. Returns the paths of changed files."""
    changed = []
    for tree in _trees(root):
        for path, committed, generated in tree.compare():
            if committed == generated:
                continue
            changed.append(str(path.relative_to(root.parent)))
            if generated is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(generated)
    return changed


def differences(root: Path = ROOT) -> dict[str, str]:
    """The first lines of the diff of each generated file that is out of date, by path."""
    diffs: dict[str, str] = {}
    for tree in _trees(root):
        for path, committed, generated in tree.compare():
            if committed != generated:
                old, new = (committed or "").splitlines(), (generated or "").splitlines()
                lines = difflib.unified_diff(old, new, "committed", "generated", "", "", 1, "")
                diffs[str(path.relative_to(root.parent))] = "\n".join(itertools.islice(lines, _DIFF_LINES))
    return diffs
