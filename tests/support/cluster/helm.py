"""Helm 3 or 4 with folders of its own, and the chart of this repository."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from manifests import files

CHART = files.ROOT.parent / files.CHART
GO_USER: dict[str, Any] = yaml.load(
    (Path(__file__).parents[2] / "manifests/data/go-chart-values.yaml").read_text(), yaml.CSafeLoader
)
"""The values of a user of the Go project's chart."""

RELEASE = "jobset"
NAMESPACE = "jobset-system"


def page_rules() -> list[dict[str, Any]]:
    """The rules of both roles of the page in the chart, which have no template in them."""
    text = (CHART / "templates/page.yaml").read_text()
    plain = re.sub(r"\{\{.*?\}\}", "x", re.sub(r"\{\{-.*?\}\}", "", text, flags=re.DOTALL))
    return [rule for each in yaml.safe_load_all(plain) if each for rule in each.get("rules", ())]


@dataclass(frozen=True, slots=True)
class Helm:
    """One executable. `home` keeps it from the user's own repositories and caches."""

    version: int
    executable: Path
    home: Path

    def run(self, *args: str, values: Any = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A command of Helm; `values` go in through standard input."""
        folders = {f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        given = () if values is None else ("--values=-",)
        done = subprocess.run(  # noqa: S603 - built by us
            [self.executable, *args, *given],
            env=os.environ | folders,
            input=json.dumps(values),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    def template(self, values: Any = None, *, release: str = RELEASE, namespace: str = NAMESPACE) -> str:
        """What it would install."""
        options = ("--namespace", namespace, "--kube-version", "1.37.1")
        return self.run("template", release, str(CHART), *options, values=values or {}).stdout

    def objects(self, values: Any = None, **names: str) -> list[Any]:
        """The same as objects."""
        # The parser in C: the CRD is 300 kB.
        return [each for each in yaml.load_all(self.template(values, **names), yaml.CSafeLoader) if each]
