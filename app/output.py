"""Answers of commands for programs: one object, as JSON or YAML."""

import json
from collections.abc import Mapping
from typing import Any, Final

import yaml

FORMS: Final = ("json", "yaml")


class _Plain(yaml.SafeDumper):
    """Writes a list out wherever it stands, and no reference to where it stood before."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def dumped(body: Mapping[str, Any], output: str) -> str:
    """The object in one of these forms, on several lines."""
    if output == "yaml":
        return str(yaml.dump(dict(body), None, _Plain, sort_keys=False, allow_unicode=True, width=2**31 - 1))
    return json.dumps(body, indent=2) + "\n"
