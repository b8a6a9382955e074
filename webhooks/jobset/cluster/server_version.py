"""What a set needs of the API server's version. An older one drops fields that it does not know, without a word."""

from api.jobset import JobSet
from api.restart_agent import agent_of
from kube.client import Client
from kube.model.field import SPEC, FieldError
from kube.model.versions import AGENT_SIDECAR, Version
from webhooks.jobset.cluster.lookups import Lookups
from webhooks.jobset.cluster.verdict import warning

FRESH = 300.0
"""Seconds for which a version is good. One that could not be read is asked for again."""

AGENT_TOO_NEW = warning(
    "restart-agent-version",
    "{text}",
    "set mode: MainContainer",
)


def has_sidecar_agent(js: JobSet) -> bool:
    """Whether the agent is added as a container that restarts the others."""
    agent = agent_of(js)
    return agent is not None and agent.mode != "MainContainer"


class ServerVersion:
    """The version of the API server. One for a process."""

    def __init__(self) -> None:
        self._known: Lookups[str, Version | None] = Lookups(1)

    async def shortfalls(self, client: Client) -> list[FieldError]:
        """A warning about a set with that agent, where the API server is too old for it."""
        version = await self._known.get("", client.server_version, lambda _: FRESH)
        text = AGENT_SIDECAR.shortfall(version)
        return [AGENT_TOO_NEW.at(SPEC.at("failurePolicy", "agent", "mode"), text=text)] if text else []
