"""`python -m dev.hack.licences`: write docs/reference/licences.md, or check that it is current.

The page is made from the metadata of the installed distributions. It has no versions, so that it changes only with the
dependencies and their licences.
"""

import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dev.hack import generated

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "licences.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
LONGEST_NAME = 60
"""Characters of a licence's name. Longer fields contain the text of the licence."""


def required_distributions(requirements: Iterable[str]) -> set[str]:
    """Return the names of all distributions that these requirements install, on this system and Python."""
    waiting = [Requirement(text) for text in requirements]
    visited: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) not in visited:
            visited.add((name, extras))
            inner = (Requirement(text) for text in distribution(name).requires or ())
            waiting += [dependency for dependency in inner if _applies(dependency, extras)]
    return {name for name, _ in visited}


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    return requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras or {""})


def licence(name: str) -> str:
    """Return the licence that a distribution declares, as an expression or its classifiers; "unknown" without any."""
    metadata = distribution(name).metadata
    for text in metadata.get_all("License-Expression") or metadata.get_all("License") or ():
        if text and len(text) <= LONGEST_NAME:
            return str(text)
    classifiers = [
        text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier") or () if text.startswith("License ")
    ]
    return ", ".join(classifiers) or "unknown"


def licence_table(names: Iterable[str]) -> str:
    """Return names and licences as a table in Markdown."""
    rows = "".join(f"| {name} | {licence(name)} |\n" for name in sorted(names))
    return f"| Distribution | Licence |\n|---|---|\n{rows}"


def image_distributions() -> set[str]:
    """Return the names of the distributions in the image, which are the dependencies and extras."""
    return required_distributions(
        PROJECT["project"]["dependencies"] + [text for extra in EXTRAS.values() for text in extra]
    )


def page() -> str:
    development = required_distributions(PROJECT["dependency-groups"]["dev"]) - image_distributions()
    head = f"{generated.beginning('reference/licences.md')}\n\n{licence_table(image_distributions())}"
    return f"{head}\n## For development only\n\nNothing of these is in the image.\n\n{licence_table(development)}"


if __name__ == "__main__":
    sys.exit(generated.main({PAGE: page}))
