"""The folder of the examples, which `jobset demo` and `jobset init` use."""

from pathlib import Path

_TREE = Path(__file__).parents[1]
_INSTALLED = _TREE / "cli" / "examples"
EXAMPLES = _INSTALLED if _INSTALLED.is_dir() else _TREE / "examples"
"""The wheel has the examples in the package `cli`, a clone in a folder beside the packages."""
