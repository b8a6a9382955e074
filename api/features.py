"""Feature gates: names, stages, defaults, and the parser of `A=true,B=false`.

See docs/reference/manager.md#feature-gates.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kube.model.suggest import nearest


@dataclass(frozen=True, slots=True)
class Gate:
    """One feature gate: its stage (Alpha, Beta, GA), its default, and whether it is locked to the default."""

    stage: str
    default: bool
    locked: bool = False


GATES: Mapping[str, Gate] = {
    "ElasticJobSet": Gate("Alpha", default=False),
    "ExecutionAttemptsTracking": Gate("Alpha", default=False),
    "InPlaceRestart": Gate("Alpha", default=False),
    "JobSetActiveDeadlineSeconds": Gate("Alpha", default=False),
    "JobSetElasticReplicas": Gate("Alpha", default=False),
    "JobSetFailureEscalation": Gate("Alpha", default=False),
    "JobSetAvoidNodes": Gate("Alpha", default=False),
    "JobSetGangOfGangs": Gate("Alpha", default=False),
    "JobSetNodeFailure": Gate("Alpha", default=False),
    "JobSetNodeMaintenance": Gate("Alpha", default=False),
    "JobSetPolicies": Gate("Alpha", default=False),
    "JobSetRecoveryTimes": Gate("Alpha", default=False),
    "JobSetSpares": Gate("Alpha", default=False),
    "JobSetStartTimeout": Gate("Alpha", default=False),
    "JobSetSuspensionOptions": Gate("Alpha", default=False),
    "JobSetWorkloadAwareSchedulingAPI": Gate("Alpha", default=False),
    "MutablePodResourcesForSuspendedJobSets": Gate("Alpha", default=False),
    "RestartJob": Gate("Alpha", default=False),
    "TLSOptions": Gate("GA", default=True, locked=True),
}
_REQUIRED_GATES = {"JobSetGangOfGangs": "JobSetWorkloadAwareSchedulingAPI"}
"""Gates that have no effect without another gate."""
STAGES = {"AllAlpha": "Alpha", "AllBeta": "Beta"}
"""Names that stand for all gates of a stage."""


class FeatureGateError(ValueError):
    """An unknown gate, a locked gate set to another value, or a text that is not a list of gates."""


def gate_faults(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name and message of each fault: unknown names, values that are not true or false, and changed locked gates."""
    names = [*GATES, *STAGES]
    for name, value in settings.items():
        gate = GATES.get(name)
        if name not in names:
            nearest_name = nearest(name, names)
            hint = f'did you mean "{nearest_name}"?' if nearest_name else f"known are {', '.join(names)}"
            yield name, f"unknown feature gate {name!r}: {hint}"
        if not isinstance(value, bool):
            yield name, "must be true or false"
        elif gate and gate.locked and value != gate.default:
            default = str(gate.default).lower()
            yield name, f"feature gate {name} is {gate.stage} and locked to {default}: remove it from the settings"


class FeatureGates(dict[str, bool]):
    """The gates of one process, read as `gates["RestartJob"]`. They never change."""

    def __init__(self, settings: Mapping[str, bool] | None = None) -> None:
        settings = settings or {}
        if messages := [message for _, message in gate_faults(settings)]:
            raise FeatureGateError("; ".join(messages))
        stages = {STAGES[name]: value for name, value in settings.items() if name in STAGES}
        super().__init__({name: stages.get(gate.stage, gate.default) for name, gate in GATES.items()})
        self.update({name: value for name, value in settings.items() if name in GATES})
        for name, needed in _REQUIRED_GATES.items():
            if self[name] and not self[needed]:
                raise FeatureGateError(f"feature gate {name} needs {needed}: turn that on, too")


DEFAULT_GATES = FeatureGates()


def parse_feature_gates(text: str) -> dict[str, bool]:
    """Parse `A=true,B=false`; an empty text has no settings. Raises `FeatureGateError` with all malformed settings."""
    settings: dict[str, bool] = {}
    malformed: list[str] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = item.partition("=")
        if equals and value.lower() in {"true", "false"}:
            settings[name] = value.lower() == "true"
        else:
            malformed.append(repr(item))
    if malformed:
        problem = "is not a feature gate setting" if len(malformed) == 1 else "are not feature gate settings"
        raise FeatureGateError(f"{', '.join(malformed)} {problem}: write NAME=true or NAME=false")
    return settings
