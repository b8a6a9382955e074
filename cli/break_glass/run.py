"""Runs `jobset webhooks`: reads both webhook configurations, changes them for `off` and `on`, writes their state."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

from certs.remedies import apply_again_remedy
from cli import session
from cli.messages import printable, write_messages
from cli.output import DATA_FORMATS, dump
from controllers.resources import JOBSETS
from kube.errors import KubeError
from manifests.installed.answering import foreign_managers, unreachable_services
from manifests.installed.configurations import CONFIGURATIONS, switch
from manifests.installed.webhook_switch import Configuration, State, configuration_state

NOT_ENFORCED = (
    "while they are off, JobSets get no defaults (their pods have no DNS names) and no checks but the CRD's schema, and"
    " pods of exclusive Jobs no affinity; `jobset webhooks on` puts them back"
)


@dataclass(frozen=True, slots=True)
class Options(session.ClusterFlags):
    """The action (`status`, `off` or `on`), and the form of the output."""

    action: str
    output: str = "table"


@session.command("webhooks", verbs="")
async def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the state of the configurations to `out`, and what is wrong with them to `err`. Returns the exit code."""
    configurations, remedy, serving_faults = await _switch_all(options)
    _write(configurations, options.output, out)
    missing_names = [configuration.name for configuration in configurations if configuration.state is State.MISSING]
    misdirected_webhooks = [webhook for configuration in configurations for webhook in configuration.misdirected]
    messages = [f"{' and '.join(missing_names)}: no webhooks are there: {remedy}"] if missing_names else []
    if misdirected_webhooks:
        messages.append(f"called where the manager does not serve them: {', '.join(misdirected_webhooks)}: {remedy}")
    messages += serving_faults
    if any(configuration.state is State.OFF for configuration in configurations):
        messages.append(NOT_ENFORCED)
    write_messages("webhooks", messages, err)
    if options.action == "off":
        return 0
    are_on = all(configuration.state is State.ON for configuration in configurations)
    return 0 if are_on and not (misdirected_webhooks or serving_faults) else 1


async def _switch_all(options: Options) -> tuple[list[Configuration], str, list[str]]:
    """Change the webhook configurations for `off` and `on`.

    Returns the configurations, the fix for missing or wrong webhooks, and faults of the Services and managers that
    answer. These faults are found only for `status`, since with `on` the manager may have just been started.
    """
    async with session.connect(options) as connection:
        bodies = [await switch(connection.client, resource, name, options.action) for resource, name in CONFIGURATIONS]
        configurations = [
            configuration_state(resource.kind, name, body)
            for (resource, name), body in zip(CONFIGURATIONS, bodies, strict=True)
        ]
        are_all_missing = all(configuration.state is State.MISSING for configuration in configurations)
        if are_all_missing and JOBSETS.plural not in await connection.client.served_resources(JOBSETS.api_version):
            raise KubeError(session.NOT_INSTALLED)
        serving_faults = []
        if options.action == "status":
            serving_faults += await unreachable_services(connection.client, bodies)
            serving_faults += await foreign_managers(connection.client, bodies)
        return configurations, apply_again_remedy(bodies), serving_faults


def _write(configurations: Sequence[Configuration], output: str, out: TextIO) -> None:
    body = {"configurations": [{**asdict(item), "state": item.state.value} for item in configurations]}
    if output in DATA_FORMATS:
        out.write(dump(body, output))
    else:
        for item in configurations:
            since = f" since {item.since}" if item.since else ""
            names = f": {', '.join(item.webhooks)}" if item.webhooks else ""
            out.write(printable(f"{item.state.value}{since}  {item.kind} {item.name}{names}") + "\n")
