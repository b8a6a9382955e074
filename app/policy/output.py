"""Answers of commands of `jobset policy` for programs: one object, as JSON or YAML."""

import json
from collections.abc import Mapping
from typing import Any, Final, TextIO

import yaml

FORMS: Final = ("json", "yaml")


class _Plain(yaml.SafeDumper):
    """Writes a list out wherever it stands, and no reference to where it stood before."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def write_object(body: Mapping[str, Any], output: str, out: TextIO) -> None:
    """Write the object in one of these forms."""
    if output == "yaml":
        yaml.dump(dict(body), out, _Plain, sort_keys=False, allow_unicode=True, width=2**31 - 1)
        return
    json.dump(body, out, indent=2)
    out.write("\n")
