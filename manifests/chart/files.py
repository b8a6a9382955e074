"""The list of the chart's generated files, with their content."""

import json
import re
from pathlib import Path

import yaml

from manifests.chart.templates import template_files
from manifests.chart.values import defaults, schema, values_table, with_comments
from manifests.naming import IMAGE_TAG
from manifests.text import HEADER

CHART = Path("charts/jobset")
"""The chart's folder, in the repository."""

HANDWRITTEN = frozenset(
    {
        "dashboards/jobset.json",
        "templates/_helpers.tpl",
        "templates/certificates.yaml",
        "templates/monitoring.yaml",
        "templates/page.yaml",
        "templates/selectors.yaml",
        "templates/NOTES.txt",
    }
)
"""Files without generated parts. In README.md only the table of values is generated, in Chart.yaml only the
versions."""

_TABLE = re.compile(r"^\| Value \|.*?\n(?!\|)", re.MULTILINE | re.DOTALL)


_VERSION = re.compile(r"(?i)(version: v?)\d+\.\d+\.\d+.*")


def chart_files(folder: Path) -> dict[str, str]:
    """The content of every generated file, by path below the chart's folder, which is `folder`."""
    readme, chart = ((folder / name).read_text() for name in ("README.md", "Chart.yaml"))
    return {
        "Chart.yaml": _VERSION.sub(rf"\g<1>{IMAGE_TAG.removeprefix('v')}", chart),
        "README.md": _TABLE.sub(lambda _: f"{values_table()}\n", readme),
        "values.yaml": HEADER + with_comments(yaml.safe_dump(defaults(), sort_keys=False, width=120)),
        "values.schema.json": json.dumps(schema(), indent=1) + "\n",
        **{f"templates/{name}": f"{{{{- /* {HEADER[2:-1]} */ -}}}}\n{text}" for name, text in template_files().items()},
    }
