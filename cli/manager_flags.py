"""The flags of the manager, and the settings that result from them and the configuration file.

The flags are those of the Go manager and a few more. See docs/reference/configuration.md, which is generated from this
file.
"""

import argparse
from dataclasses import dataclass
from functools import partial

from api.features import FeatureGateError, FeatureGates, gate_faults, parse_feature_gates
from app.ports import listening_addresses, shared_ports
from app.settings import Settings, SettingsError
from app.settings_file import load
from cli.commands import number, whole_number

_OVERRIDES = {
    "metrics_bind_address": ("metrics", "bind_address"),
    "health_probe_bind_address": ("health", "health_probe_bind_address"),
    "leader_elect": ("leader_election", "leader_elect"),
    "kube_api_qps": ("client_connection", "qps"),
    "kube_api_burst": ("client_connection", "burst"),
}
"""Flags that override a field of the configuration file, with the section and the name of the field."""


class FlagError(SettingsError):
    """A flag has an invalid value. Each line of the text is one fault."""


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """The settings of the file, overridden by flags."""

    settings: Settings
    gates: FeatureGates
    flags: frozenset[tuple[str, str]]
    """Section and name of the fields that a flag has set."""
    gate_flags: frozenset[str]
    """Names of feature gates, and of groups such as AllAlpha, that a flag has set."""


def effective_settings(parsed: argparse.Namespace, file: str) -> EffectiveSettings:
    """The settings of the file, overridden by flags.

    Raises `SettingsError` with the faults of file and flags, `FlagError` if only flags have faults, and
    `FeatureGateError`.
    """
    settings, faults = Settings(), []
    if parsed.check_config and parsed.config not in {"", parsed.check_config}:
        raise FlagError(
            f"flags --check-config and --config: only {parsed.check_config} would be checked, and {parsed.config} not"
            " be read; leave out --config"
        )
    try:
        settings = load(file)
    except SettingsError as error:
        faults.append(str(error))
    has_file_faults = bool(faults)
    overrides = {
        setting: getattr(parsed, flag) for flag, setting in _OVERRIDES.items() if getattr(parsed, flag) is not None
    }
    for (section, name), value in overrides.items():
        try:
            settings = settings.override(section, **{name: value})
        except SettingsError as error:
            faults.append(str(error))
    gates_by_flag: dict[str, bool] = {}
    try:
        gates_by_flag = parse_feature_gates(parsed.feature_gates)
    except FeatureGateError as error:
        faults.append(f"flag --feature-gates: {error}")
    faults += (f"flag --feature-gates: {message}" for _, message in gate_faults(gates_by_flag))
    if faults:
        raise (SettingsError if has_file_faults else FlagError)("\n".join(faults))
    addresses = listening_addresses(settings, webhooks=parsed.webhooks)
    if faults := list(shared_ports(addresses)):
        raise (FlagError if overrides.keys() & addresses.keys() else SettingsError)("\n".join(faults))
    gates = FeatureGates({**settings.feature_gates, **gates_by_flag})
    return EffectiveSettings(settings, gates, frozenset(overrides), frozenset(gates_by_flag))


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Register the flags of the manager."""
    add = parser.add_argument
    switch = partial(add, type=boolean, nargs="?", const=True, metavar="BOOL")
    add("--config", default="", metavar="FILE", help="configuration file; without it, all defaults")
    add("--check-config", type=file_name, metavar="FILE", help="check this file, print what is in force, run nothing")
    text = "form of --check-config; yaml and json can be used as a file (default table)"
    add("-o", "--output", choices=("table", "yaml", "json"), default="table", help=text)
    add("--kubeconfig", default="", metavar="FILE", help="default: $KUBECONFIG, the pod's account, ~/.kube/config")
    add("--feature-gates", default="", metavar="A=true,B=false", help="feature gates, over those of the file")
    for part in ("controllers", "webhooks"):
        switch(f"--{part}", default=True, help=f"run the {part} (default true)")
    switch("--leader-elect", help="reconcile only with the lease (default true)")
    add("--metrics-bind-address", metavar="HOST:PORT", help="metrics endpoint; 0 = none (default :8443)")
    add("--health-probe-bind-address", metavar="HOST:PORT", help="probes; 0 = none (default :8081)")
    add("--kube-api-qps", type=number, metavar="N", help="requests per second to the API server (default 500)")
    add("--kube-api-burst", type=whole_number, metavar="N", help="requests at once to the API server (default 500)")
    text = "debug, info, error, panic, or a number: 1, 2 = info (default by --zap-devel)"
    add("--zap-log-level", default="", metavar="LEVEL", help=text)
    add("--zap-encoder", default="", metavar="FORM", help="json or console (default by --zap-devel)")
    switch("--zap-devel", default=True, help="console and debug; false: json and info (default true)")
    text = "info, error, panic: tracebacks from there on (default error)"
    add("--zap-stacktrace-level", default="", metavar="LEVEL", help=text)
    text = "epoch, millis, nano, iso8601, rfc3339, rfc3339nano (default rfc3339)"
    add("--zap-time-encoding", default="", metavar="FORM", help=text)


def file_name(text: str) -> str:
    """The value of --check-config. An empty value, mostly a shell variable that is not set, is an error.

    Otherwise an empty value would start the manager. An empty --config or --kubeconfig means the default, as for the Go
    manager.
    """
    if not text:
        raise argparse.ArgumentTypeError("it names no file: write a file, or leave out the flag")
    return text


def boolean(text: str) -> bool:
    """The value of a boolean flag, in the spellings of Go."""
    if text.lower() in {"true", "t", "1"}:
        return True
    if text.lower() in {"false", "f", "0"}:
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
