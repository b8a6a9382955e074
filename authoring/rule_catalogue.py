"""Every rule that an object may break, by the file that defines it: for the reference page."""

import inspect
import pkgutil
from functools import cache
from importlib import import_module
from types import ModuleType

import authoring
import policy
import webhooks.jobset
from kube.model.field import Rule


def rules() -> dict[str, tuple[Rule, ...]]:
    """The rules of each file that has any, in the order of the file, by the first line of its docstring.

    A rule is a module-level constant; a shared one counts for the first file.
    """
    seen: set[str] = set()
    found: dict[str, tuple[Rule, ...]] = {}
    for module in _modules():
        own = [rule for rule in _constants(module) if rule.id not in seen]
        if own:
            seen.update(rule.id for rule in own)
            found[(inspect.getdoc(module) or "").partition("\n")[0].removesuffix(" Pure.")] = tuple(own)
    return found


def all_rules() -> list[Rule]:
    """Every rule constant of every file, those that are imported included."""
    return [rule for module in _modules() for rule in _constants(module)]


def _constants(module: ModuleType) -> list[Rule]:
    return [value for value in vars(module).values() if isinstance(value, Rule)]


@cache
def _modules() -> tuple[ModuleType, ...]:
    """The files that define rules before those that use them: `rules` first, then the others by name."""
    found: list[ModuleType] = []
    for package in (webhooks.jobset, authoring, policy):
        names = [info.name for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
        found += [import_module(name) for name in sorted(names, key=lambda name: (".rules." not in name, name))]
    return tuple(found)
