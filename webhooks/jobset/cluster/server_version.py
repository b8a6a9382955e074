"""The version of the API server that a set needs. An older API server silently drops fields that it does not know."""

from api.jobset import JobSet
from api.restart_agent import agent_of
from kube.client import Client
from kube.model.field import SPEC, FieldError
from kube.model.versions import AGENT_SIDECAR, AGENT_VOLUME, Feature, Version
from webhooks.jobset.cluster.lookups import Lookups
from webhooks.jobset.cluster.verdict import warning

CACHE_SECONDS = 300.0
"""Seconds for which a version is cached. The failure of a request is not cached."""

AGENT_TOO_NEW = warning(
    "restart-agent-version",
    "{text}",
    "{how}",
)
_FIX_BY_FIELD = {"mode": "set mode: MainContainer", "imageVolume": "remove the field"}


def agent_field_and_feature(js: JobSet) -> tuple[str, Feature] | None:
    """The field of the agent that an older API server does not support, and the feature that the field needs."""
    agent = agent_of(js)
    if agent is None:
        return None
    if agent.mode != "MainContainer":
        return "mode", AGENT_SIDECAR
    return ("imageVolume", AGENT_VOLUME) if agent.image_volume else None


class ServerVersion:
    """The version of the API server. One instance for a process."""

    def __init__(self) -> None:
        self._version: Lookups[str, Version | None] = Lookups(1)

    async def warnings(self, field: str, feature: Feature, client: Client) -> list[FieldError]:
        """A warning about this field of the agent, if the API server is too old for its feature."""
        version = await self._version.get("", client.server_version, lambda _: CACHE_SECONDS)
        text, how = feature.shortfall(version), _FIX_BY_FIELD[field]
        return [AGENT_TOO_NEW.at(SPEC.at("failurePolicy", "agent", field), text=text, how=how)] if text else []
