"""`python -m dev.hack.docs_site`: make the documentation a site with search, in build/site.

The pages lie beside the code, and link to each other and to examples, so they are copied in the same layout. Zensical
makes the site, and refuses links that lead nowhere. A folder of examples gets a page that shows its files.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from app import version

ROOT = Path(__file__).parents[2]
CONFIG = Path(__file__).with_name("site.yml")
OVERRIDES = Path(__file__).with_name("site")
STYLE = "site.css"
"""The file with changes to the theme (the line above each page, and the width of its column)."""
COPIED_FOLDERS = ("docs", "examples")
"""Folders of which all files are copied. Of other folders, only pages are copied."""
LINKED = ("charts/jobset/dashboards/jobset.json", "manifests/kube-state-metrics/config.yaml")
"""Files that pages link to."""
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
NOT_SHOWN = {".venv", "build", "node_modules"}


class SiteError(Exception):
    """The site cannot be made. The text says why."""


def pages(root: Path = ROOT) -> list[str]:
    """All pages of the repository, as paths from its root."""
    paths = (path.relative_to(root) for path in root.rglob("*.md"))
    return sorted(str(path) for path in paths if not any(part in NOT_SHOWN or part[0] == "." for part in path.parts))


def named_pages(nav: Any) -> Iterator[str]:
    """Yield the pages that `nav` or a part of it names. `nav` is the tree of pages in site.yml."""
    match nav:
        case str():
            yield nav
        case dict():
            for part in nav.values():
                yield from named_pages(part)
        case list():
            for part in nav:
                yield from named_pages(part)


def copy_files(target: Path, root: Path = ROOT) -> list[str]:
    """Copy the files of the site to `target`. Returns the paths of the pages."""
    shutil.rmtree(target, ignore_errors=True)
    for name in COPIED_FOLDERS:
        shutil.copytree(root / name, target / name)
    page_paths = pages(root)
    for page in (*page_paths, *LINKED):
        (target / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / page, target / page)
    folders = [target / "examples", *(path for path in (target / "examples").rglob("*") if path.is_dir())]
    for folder in folders:
        if not (folder / "README.md").exists():
            (folder / "index.md").write_text(_folder_page(folder, target), encoding="utf-8")
            page_paths.append(str((folder / "index.md").relative_to(target)))
    return page_paths


def _folder_page(folder: Path, root: Path) -> str:
    """Return a page that shows the files of a folder, and links to the folders in it."""
    lines = [f"# {folder.relative_to(root)}", ""]
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            page = "README.md" if (path / "README.md").exists() else "index.md"
            lines += [f"- [{path.name}]({path.name}/{page})"]
    for path in sorted(folder.glob("*.yaml")):
        lines += ["", f"## {path.name}", "", "```yaml", path.read_text(encoding="utf-8").rstrip("\n"), "```"]
    return "\n".join(lines) + "\n"


def site_config(page_paths: list[str]) -> dict[str, Any]:
    """Return the configuration, with the pages of all rules added to `nav`.

    Raises `SiteError` for pages that `nav` does not name, and for names in it without a page.
    """
    config: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    placed_pages = set(named_pages(config["nav"]))
    # All other pages of docs/policy are generated, one for each rule.
    rule_pages = [name for name in page_paths if name.startswith("docs/policy/") and name not in placed_pages]
    policies = next(part["Set policies"] for part in config["nav"] if "Set policies" in part)
    policies += [{"Each rule": rule_pages}]
    placed_pages |= {*rule_pages, *(name for name in page_paths if name.startswith("examples/"))}
    if unplaced_pages := sorted(set(page_paths) - placed_pages):
        raise SiteError(f"pages without a place: add them to nav in dev/hack/site.yml: {', '.join(unplaced_pages)}")
    if missing_pages := sorted(placed_pages - set(page_paths)):
        raise SiteError(f"nav in dev/hack/site.yml names pages that are not there: {', '.join(missing_pages)}")
    return config


def repository() -> str:
    """Return the address of the repository if a workflow of a code host makes the site, else ""."""
    host, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    return f"{host}/{name}" if host and name else ""


def build(folder: Path = ROOT / "build") -> Path:
    """Make the site in a folder. Returns its first page. Raises `SiteError`, also for a dead link."""
    source = folder / "site-source"
    config = site_config(copy_files(source)) | {"docs_dir": "site-source", "site_dir": "site"}
    config["theme"]["custom_dir"] = str(OVERRIDES)
    config["extra"] = {"release": version.current_version(), "repository": repository()}
    shutil.copyfile(OVERRIDES / STYLE, source / STYLE)
    config["extra_css"] = [STYLE]
    file = folder / "site.yml"
    file.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    program = str(Path(sys.executable).with_name("zensical"))
    command = [program, "build", "--strict", "--clean", "-f", str(file)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 (a dependency of ours)
    if result.returncode:
        output = _COLOUR.sub("", f"{result.stdout}{result.stderr}")
        raise SiteError(output.partition("Traceback")[0].strip() or output)
    return folder / "site" / "index.html"


def main() -> int:
    argparse.ArgumentParser(prog="python -m dev.hack.docs_site", description=__doc__).parse_args()
    try:
        first_page = build()
    except SiteError as error:
        sys.stderr.write(f"docs-site: {error}\n")
        return 1
    sys.stdout.write(f"open {first_page.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
