"""Lists all rules that an object may break, by the file that defines them, for docs/errors.md."""

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
    """The rules of each file with rules, in the order of the file, by the first line of the file's docstring.

    A rule is a module-level constant. A constant that several files have counts for the first file.
    """
    listed_ids: set[str] = set()
    rules_by_title: dict[str, tuple[Rule, ...]] = {}
    for module in _modules():
        new_rules = [rule for rule in _constants(module) if rule.id not in listed_ids]
        if new_rules:
            listed_ids.update(rule.id for rule in new_rules)
            title = (inspect.getdoc(module) or "").partition("\n")[0].removesuffix(" Pure.")
            rules_by_title[title] = tuple(new_rules)
    return rules_by_title


def all_rules() -> list[Rule]:
    """The rule constants of all files, with repetitions, since imported constants are included."""
    return [rule for module in _modules() for rule in _constants(module)]


def _constants(module: ModuleType) -> list[Rule]:
    return [value for value in vars(module).values() if isinstance(value, Rule)]


@cache
def _modules() -> tuple[ModuleType, ...]:
    """All modules with rules. In each package, modules of a folder `rules` come first, since others import them."""
    modules: list[ModuleType] = []
    for package in (webhooks.jobset, authoring, policy):
        names = [info.name for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
        modules += [import_module(name) for name in sorted(names, key=lambda name: (".rules." not in name, name))]
    return tuple(modules)
