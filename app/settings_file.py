"""Reads the manager's configuration file, whose fields are in `app.settings`.

An unknown field, a duplicate key or a value of a wrong type is an error, whose message names the line.
"""

import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from app.settings import API_VERSION, KIND, Settings, SettingsError
from app.settings_faults import fault_lines, line_words


class _StrictLoader(yaml.SafeLoader):
    """A YAML loader that collects a message for each duplicate key in `duplicates`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.duplicates: list[str] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        known_keys: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # the inherited method raises an error
            if key.value in known_keys:
                self.duplicates.append(f"line {key.start_mark.line + 1}: key {key.value!r} is given twice")
            known_keys.add(key.value)
        return super().construct_mapping(node, deep)


def load(path: str) -> Settings:
    """The settings in the file, or the defaults for an empty path. Raises `SettingsError`."""
    if not path:
        return Settings()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"cannot read the configuration file {path}: {reason}") from error
    try:
        return parse(text)
    except SettingsError as error:
        raise SettingsError(f"configuration file {path} cannot be used:\n{error}") from error


def parse(text: str) -> Settings:
    """The settings in the text of a configuration file. Raises `SettingsError` with all faults."""
    try:
        tree, data, faults = _read_yaml(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"not YAML: {_yaml_fault(error)}") from error
    except ValueError as error:
        raise SettingsError("not YAML: a value does not fit its tag (!!)") from error
    if not isinstance(data, dict):
        raise SettingsError(f"{_kind_fault(data)}; write at least\n  apiVersion: {API_VERSION}\n  kind: {KIND}")
    if data.get("kind") == "ConfigMap":
        entries = data.get("data")
        keys = ", ".join(map(str, entries if isinstance(entries, dict) else ())) or "none"
        raise SettingsError(
            f"this is a ConfigMap: give what it holds, not itself (its keys: {keys}), such as by"
            " kubectl get configmap NAME -n NAMESPACE -o jsonpath='{.data.controller_manager_config\\.yaml}'"
        )
    type_of_file = {"apiVersion": API_VERSION, "kind": KIND}
    for field, expected in type_of_file.items():
        if data.get(field) != expected:
            actual = json.dumps(data[field], default=str) if field in data else "missing"
            faults.append(f"{field}: must be {expected}, is {actual}{line_words(tree, (field,))}")
    try:
        settings = Settings.model_validate({**_without_nulls(data), **type_of_file})
    except ValidationError as error:
        faults += fault_lines(Settings, error, tree)
    if faults:
        raise SettingsError("\n".join(faults))
    return settings


def _kind_fault(data: Any) -> str:
    """A message about a YAML document that is not a mapping."""
    if data is None:
        return "the file is empty, or holds only comments"
    return f"the file holds a {'list' if isinstance(data, list) else 'single value'}, and has to hold fields"


def _read_yaml(text: str) -> tuple[yaml.Node | None, Any, list[str]]:
    """The YAML nodes of the text, which have line numbers, its data, and messages about duplicate keys."""
    loader = _StrictLoader(text)
    try:
        tree = loader.get_single_node()
        data = None if tree is None else loader.construct_document(tree)
        return tree, data, loader.duplicates
    finally:
        loader.dispose()


def _yaml_fault(error: yaml.YAMLError) -> str:
    """What is wrong, with its line and column. The parser's own message would also quote the text."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})" if mark else problem


def _without_nulls(value: Any) -> Any:
    """The value without fields that are null, since null means an absent field, as in Kubernetes objects."""
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return value
