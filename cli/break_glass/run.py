"""One run of `jobset webhooks`: connect, read both configurations, change them if asked to, write their state."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TextIO

from certs.remedies import apply_again
from cli import session
from cli.messages import printable, write_messages
from cli.output import FORMS, dump
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
class Options(session.Where):
    """The action, `status`, `off` or `on`, and the form of the output."""

    wanted: str
    output: str = "table"


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the state of the configurations to `out`, or the problem to `err`. Returns the exit code."""
    return session.run("webhooks", partial(_run, options, out, err), err, right="")


async def _run(options: Options, out: TextIO, err: TextIO) -> int:
    found, remedy, faults = await _switch_all(options)
    _write(found, options.output, out)
    missing = [each.name for each in found if each.state is State.MISSING]
    wrong = [hook for each in found for hook in each.misdirected]
    texts = [f"{' and '.join(missing)}: no webhooks are there: {remedy}"] if missing else []
    if wrong:
        texts.append(f"called where the manager does not serve them: {', '.join(wrong)}: {remedy}")
    texts += faults
    if any(each.state is State.OFF for each in found):
        texts.append(NOT_ENFORCED)
    write_messages("webhooks", texts, err)
    if options.wanted == "off":
        return 0
    return 0 if not (wrong or faults) and all(each.state is State.ON for each in found) else 1


async def _switch_all(options: Options) -> tuple[list[Configuration], str, list[str]]:
    """The configurations, the remedy for what is missing in them, and faults of the endpoints.

    The latter only for `status`: with `on`, the manager may have just been started.
    """
    async with session.connect(kubeconfig=options.kubeconfig, context=options.context) as to:
        stored = [await switch(to.client, resource, name, options.wanted) for resource, name in CONFIGURATIONS]
        found = [
            configuration_state(resource.kind, name, body)
            for (resource, name), body in zip(CONFIGURATIONS, stored, strict=True)
        ]
        missing = all(each.state is State.MISSING for each in found)
        if missing and JOBSETS.plural not in await to.client.served_resources(JOBSETS.api_version):
            raise KubeError(session.NOT_INSTALLED)
        faults = []
        if options.wanted == "status":
            faults = [*await unreachable_services(to.client, stored), *await foreign_managers(to.client, stored)]
        return found, apply_again(stored), faults


def _write(found: Sequence[Configuration], output: str, out: TextIO) -> None:
    body = {"configurations": [{**asdict(each), "state": each.state.value} for each in found]}
    if output in FORMS:
        out.write(dump(body, output))
    else:
        for each in found:
            since = f" since {each.since}" if each.since else ""
            names = f": {', '.join(each.webhooks)}" if each.webhooks else ""
            out.write(printable(f"{each.state.value}{since}  {each.kind} {each.name}{names}") + "\n")
