"""`jobset policy export`: policies as the API server's own admission policies.

Exit codes: 0 everything was exported, 1 a policy or exception has faults, 2 some of it could not be read or exported.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO

import msgspec
import yaml

from api.features import FeatureGates
from app.settings import PolicySettings
from authoring.findings import Report
from authoring.policies import exception_documents, load, warn_of_conflicts, warn_of_exceptions
from cli.check.text import write_faults
from cli.output import write_list
from kube.clock import now
from kube.model.meta import JSON
from kube.model.versions import COMPILED_DEFAULTS, COMPILED_RULES, Feature
from policy.compiled.defaults import mutating
from policy.compiled.exceptions import MAX_EXCEPTIONS, unexpired_exceptions
from policy.compiled.policy import Circumstances, validating
from policy.evaluate import rules_in_force
from policy.exception_types import JobSetPolicyException
from policy.exceptions import duration_of, format_time, time_of
from policy.namespaces import DEFAULT
from policy.types import JobSetPolicy


@dataclass(frozen=True, slots=True)
class Options:
    """`policies`: files and directories with them. `only`: `vap`, `map` or nothing for both.

    `queue_controllers`: users whose updates are not judged; none: those of the manager's default configuration.
    """

    policies: Sequence[str]
    gates: FeatureGates
    queue_controllers: Sequence[str] = ()
    only: str = ""
    output: str = "yaml"


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the objects to `out`, and to `err` faults, and differences from the policies. Returns the exit code."""
    report = Report()
    moment = now()
    rules, excepting = load(options.policies, report)
    policies = [each.value for each in rules]
    warn_of_conflicts(rules, report, options.gates)
    filed = exception_documents(excepting, report)
    exceptions = [with_default_namespace(each.value) for each in filed]
    warn_of_exceptions(filed, policies, None, moment, report)
    if code := write_faults("policy export", report, err):
        return code
    lasting = [each for each in exceptions if _too_long(each, policies, moment)]
    exceptions = [each for each in exceptions if each not in lasting]
    circumstances = Circumstances(options.queue_controllers or PolicySettings().queue_controllers, exceptions, moment)
    found: list[JSON] = []
    for policy in policies:
        found += validating(policy, circumstances) if options.only != "map" else []
        found += mutating(policy, policies, options.gates) if options.only != "vap" else []
    for policy in policies:
        err.writelines(f"{policy.metadata.name}: {note}\n" for note in notes(policy, exceptions, moment))
    err.writelines(f"{feature.need}\n" for feature in needed_features(found))
    for each in lasting:
        meta = each.metadata
        err.write(f"{each.spec.policy}: exception {meta.namespace}/{meta.name} does not count: it lasts too long\n")
    if options.output == "json":
        write_list(found, out)
    else:
        yaml.safe_dump_all(found, out, sort_keys=False, allow_unicode=True, width=2**31 - 1)
    return 0


def needed_features(objects: Sequence[JSON]) -> list[Feature]:
    """Features of the API server that these objects need."""
    kinds = {each["kind"] for each in objects}
    by_kind = {"ValidatingAdmissionPolicy": COMPILED_RULES, "MutatingAdmissionPolicy": COMPILED_DEFAULTS}
    return [feature for kind, feature in by_kind.items() if kind in kinds]


def with_default_namespace(exception: JobSetPolicyException) -> JobSetPolicyException:
    """The exception with its namespace: `default` if the manifest names none."""
    meta = exception.metadata
    placed = msgspec.structs.replace(meta, namespace=meta.namespace or DEFAULT)
    return msgspec.structs.replace(exception, metadata=placed)


def _too_long(exception: JobSetPolicyException, policies: Sequence[JobSetPolicy], now: datetime) -> bool:
    """Whether an exception that is not stored lasts longer than allowed.

    Without this check, each export would extend it.
    """
    allowed = next((each.spec.exceptions for each in policies if each.metadata.name == exception.spec.policy), None)
    expires = time_of(exception.spec.expires_at)
    if exception.metadata.creation_timestamp or allowed is None or expires is None:
        return False
    return expires > now + duration_of(allowed.max_duration)


def notes(policy: JobSetPolicy, exceptions: Sequence[JobSetPolicyException], now: datetime) -> Iterator[str]:
    """How the exported objects differ from the policy, and which exceptions apply to it."""
    for rule, _ in rules_in_force(policy):
        if rule.note:
            yield f"{rule.name}: {rule.fit}: {rule.note}"
    for number, (exception, end) in enumerate(unexpired_exceptions(exceptions, policy, now)):
        meta = exception.metadata
        counts = f"counts for new JobSets until {format_time(end)}"
        beyond = f"does not count in the API server: at most {MAX_EXCEPTIONS} from one policy do"
        yield f"exception {meta.namespace}/{meta.name} {counts if number < MAX_EXCEPTIONS else beyond}"
