"""What a set needs of the API server's version. An older one drops fields that it does not know, without a word."""

from api.jobset import JobSet
from api.restart_agent import agent_of
from kube.client import Client
from kube.model.field import SPEC, FieldError
from kube.model.versions import AGENT_SIDECAR
from webhooks.jobset.cluster.verdict import warning

AGENT_TOO_NEW = warning(
    "restart-agent-version",
    "{text}",
    "set mode: MainContainer",
)


def has_sidecar_agent(js: JobSet) -> bool:
    """Whether the agent is added as a container that restarts the others."""
    agent = agent_of(js)
    return agent is not None and agent.mode != "MainContainer"


async def warn_of_version(client: Client) -> list[FieldError]:
    """A warning about a set with that agent, where the API server is too old for it."""
    text = AGENT_SIDECAR.shortfall(await client.server_version())
    return [AGENT_TOO_NEW.at(SPEC.at("failurePolicy", "agent", "mode"), text=text)] if text else []
