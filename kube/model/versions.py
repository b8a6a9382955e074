"""The version of Kubernetes that introduced each optional feature, and the message about older versions. Pure."""

import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

Version = tuple[int, int]
"""Major and minor."""


@dataclass(frozen=True, slots=True)
class Feature:
    """`name` is the subject of messages, in the plural if `plural`; `since` is the first version with the feature."""

    name: str
    since: Version
    plural: bool = False

    @property
    def need(self) -> str:
        """The message without the version of the API server."""
        return f"{self.name} need{'' if self.plural else 's'} Kubernetes {_text(self.since)} or newer"

    def shortfall(self, server: Version | None) -> str:
        """The message if the API server is too old for the feature; empty if it is not, or its version is unknown."""
        if server is None or server >= self.since:
            return ""
        return f"{self.need}, and the API server is {_text(server)}"


LABEL_KEYS: Final = Feature("matchLabelKeys of pod affinity", (1, 33), plural=True)
COMPILED_RULES: Final = Feature("rules of policies in the API server", (1, 34), plural=True)
COMPILED_DEFAULTS: Final = Feature("defaults of policies in the API server", (1, 36), plural=True)
POD_POLICIES: Final = Feature("admission of pods inside the API server", (1, 36))
AGENT_SIDECAR: Final = Feature("mode Sidecar", (1, 36))
AGENT_VOLUME: Final = Feature("imageVolume", (1, 35))
GANGS: Final = Feature("scheduling groups", (1, 37), plural=True)


def parse_version(answer: bytes) -> Version | None:
    """The version in an API server's answer to /version; None if it cannot be parsed."""
    try:
        numbers = msgspec.json.decode(answer, type=dict[str, Any])
        # Some providers write "33+".
        major, minor = (int(re.sub(r"\D.*", "", str(numbers.get(part, "")))) for part in ("major", "minor"))
    except ValueError:
        return None
    return major, minor


def _text(version: Version) -> str:
    return ".".join(map(str, version))
