"""Where the examples are, which the demo plays and `jobset init` makes manifests of."""

from pathlib import Path

_TREE = Path(__file__).parents[1]
_INSTALLED = _TREE / "cli" / "examples"
EXAMPLES = _INSTALLED if _INSTALLED.is_dir() else _TREE / "examples"
"""The wheel has them in the package of the commands, a clone beside its packages."""
