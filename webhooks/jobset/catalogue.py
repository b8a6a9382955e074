"""Every rule that admission knows, by the file that holds it: for the reference page."""

import inspect
import pkgutil
from importlib import import_module
from types import ModuleType

import webhooks.jobset
from api.field import Rule


def rules() -> dict[str, tuple[Rule, ...]]:
    """The rules of each file that has any, in the order of the file, by the first line of its docstring.

    A rule is a module-level constant; one that several files name counts where it is met first.
    """
    seen: set[str] = set()
    found: dict[str, tuple[Rule, ...]] = {}
    for module in _modules():
        own = [value for value in vars(module).values() if isinstance(value, Rule) and value.id not in seen]
        if own:
            seen.update(rule.id for rule in own)
            found[(inspect.getdoc(module) or "").partition("\n")[0]] = tuple(own)
    return found


def _modules() -> list[ModuleType]:
    """The files that define rules before those that use them: checks first, then schema and cluster."""
    package = webhooks.jobset
    names = [info.name for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return [import_module(name) for name in sorted(names, key=lambda name: (".rules." not in name, name))]
