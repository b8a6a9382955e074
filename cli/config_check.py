"""Writes the effective settings of the manager for `jobset manager --check-config FILE`. Pure."""

import json
from collections.abc import Iterator
from typing import Any

import yaml

from api.features import GATES, FeatureGates
from app.settings import Settings
from cli.manager_flags import EffectiveSettings
from cli.output import columns, dump


def render_config(effective: EffectiveSettings, output: str) -> str:
    """The settings as text. `output`: `table`, `yaml` or `json`."""
    if output == "table":
        return "".join(columns([("KEY", "VALUE", "FROM"), *rows(effective)], 2))
    return dump(effective_configuration(effective.settings, effective.gates), output)


def effective_configuration(settings: Settings, gates: FeatureGates) -> dict[str, Any]:
    """The configuration file with all fields and all feature gates."""
    values: dict[str, Any] = _with_integers(settings.model_dump(mode="json", by_alias=True))
    return {**values, "featureGates": {name: gates[name] for name in GATES}}


def rows(effective: EffectiveSettings) -> Iterator[tuple[str, str, str]]:
    """Key, value and origin (`flag`, `file`, `default`) of each field and feature gate."""
    values = effective_configuration(effective.settings, effective.gates)
    for section, section_field in Settings.model_fields.items():
        settings = getattr(effective.settings, section)
        for name, inner_field in getattr(section_field.annotation, "model_fields", {}).items():
            value = values[str(section_field.alias)][str(inner_field.alias)]
            file_or_default = "file" if name in settings.model_fields_set else "default"
            origin = "flag" if (section, name) in effective.flags else file_or_default
            yield f"{section_field.alias}.{inner_field.alias}", text(value), origin
    for name, gate in GATES.items():
        setting_names = {name, f"All{gate.stage}"}
        file_or_default = "file" if setting_names & effective.settings.feature_gates.keys() else "default"
        yield (
            f"featureGates.{name}",
            text(values["featureGates"][name]),
            "flag" if setting_names & effective.gate_flags else file_or_default,
        )


def text(value: Any) -> str:
    """The value as YAML in one line."""
    if isinstance(value, list):
        return json.dumps(value)
    line = yaml.safe_dump(value, default_flow_style=True, width=2**31 - 1).strip()
    return line.removesuffix("\n...") if line != "''" else '""'


def _with_integers(value: Any) -> Any:
    """The value with whole numbers as integers, such as 500 instead of 500.0."""
    if isinstance(value, dict):
        return {name: _with_integers(part) for name, part in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value
