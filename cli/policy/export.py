"""Runs `jobset policy export`: writes JobSetPolicies as ValidatingAdmissionPolicies and MutatingAdmissionPolicies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO

import msgspec

from api.features import FeatureGates
from app.settings import PolicySettings
from authoring.findings import Report
from authoring.policies import exception_documents, load, warn_of_conflicts, warn_of_exceptions
from cli.check.text import write_faults
from cli.output import dump, write_list
from kube.clock import now
from kube.model.meta import JSON
from kube.model.versions import COMPILED_DEFAULTS, COMPILED_RULES, Feature
from policy.compiled.defaults import mutating_objects
from policy.compiled.exceptions import MAX_EXCEPTIONS, unexpired_exceptions
from policy.compiled.policy import Circumstances, validating_objects
from policy.evaluate import rules_in_force
from policy.exception_types import JobSetPolicyException
from policy.exceptions import duration_of, format_time, time_of
from policy.namespaces import DEFAULT
from policy.types import Exceptions, JobSetPolicy


@dataclass(frozen=True, slots=True)
class Options:
    """The files and directories with policies, and the objects to write.

    - `queue_controllers`: users whose updates are not judged; empty for the default of the manager's configuration.
    - `only`: `vap` for rules, `map` for defaults, empty for both.
    """

    policies: Sequence[str]
    gates: FeatureGates
    queue_controllers: Sequence[str] = ()
    only: str = ""
    output: str = "yaml"


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the objects to `out`, and faults and differences from the policies to `err`. Returns the exit code."""
    report = Report()
    moment = now()
    filed_policies, documents = load(options.policies, report)
    policies = [filed.value for filed in filed_policies]
    warn_of_conflicts(filed_policies, report, options.gates)
    filed_exceptions = exception_documents(documents, report)
    exceptions = [with_default_namespace(filed.value) for filed in filed_exceptions]
    warn_of_exceptions(filed_exceptions, policies, None, moment, report)
    if code := write_faults("policy export", report, err):
        return code
    exception_limits = {policy.metadata.name: policy.spec.exceptions for policy in policies}
    too_long_exceptions = [exception for exception in exceptions if _is_too_long(exception, exception_limits, moment)]
    exceptions = [exception for exception in exceptions if exception not in too_long_exceptions]
    circumstances = Circumstances(options.queue_controllers or PolicySettings().queue_controllers, exceptions, moment)
    objects: list[JSON] = []
    for policy in policies:
        objects += validating_objects(policy, circumstances) if options.only != "map" else []
        objects += mutating_objects(policy, policies, options.gates) if options.only != "vap" else []
    for policy in policies:
        err.writelines(f"{policy.metadata.name}: {note}\n" for note in notes(policy, exceptions, moment))
    err.writelines(f"{feature.need}\n" for feature in needed_features(objects))
    for exception in too_long_exceptions:
        meta = exception.metadata
        err.write(
            f"{exception.spec.policy}: exception {meta.namespace}/{meta.name} does not count: it lasts too long\n"
        )
    if options.output == "json":
        write_list(objects, out)
    else:
        out.writelines(dump(body, "yaml", has_separator=position > 0) for position, body in enumerate(objects))
    return 0


def needed_features(objects: Sequence[JSON]) -> list[Feature]:
    """The features of the API server that these objects need."""
    kinds = {body["kind"] for body in objects}
    by_kind = {"ValidatingAdmissionPolicy": COMPILED_RULES, "MutatingAdmissionPolicy": COMPILED_DEFAULTS}
    return [feature for kind, feature in by_kind.items() if kind in kinds]


def with_default_namespace(exception: JobSetPolicyException) -> JobSetPolicyException:
    """The exception in the namespace `default` if its manifest has no namespace."""
    meta = exception.metadata
    with_namespace = msgspec.structs.replace(meta, namespace=meta.namespace or DEFAULT)
    return msgspec.structs.replace(exception, metadata=with_namespace)


def _is_too_long(
    exception: JobSetPolicyException, exception_limits: Mapping[str, Exceptions | None], moment: datetime
) -> bool:
    """Whether an exception that is not stored lasts longer than its policy allows. Each export would extend its time.

    `exception_limits`: the limits of a policy for exceptions from it, by the name of the policy.
    """
    allowed = exception_limits.get(exception.spec.policy)
    expires = time_of(exception.spec.expires_at)
    if exception.metadata.creation_timestamp or allowed is None or expires is None:
        return False
    return expires > moment + duration_of(allowed.max_duration)


def notes(policy: JobSetPolicy, exceptions: Sequence[JobSetPolicyException], moment: datetime) -> Iterator[str]:
    """Notes on differences of the exported objects from the policy, and on exceptions from it."""
    for rule, _ in rules_in_force(policy):
        if rule.note:
            yield f"{rule.name}: {rule.fit}: {rule.note}"
    for number, (exception, end) in enumerate(unexpired_exceptions(exceptions, policy, moment)):
        meta = exception.metadata
        counts = f"counts for new JobSets until {format_time(end)}"
        does_not_count = f"does not count in the API server: at most {MAX_EXCEPTIONS} from one policy do"
        yield f"exception {meta.namespace}/{meta.name} {counts if number < MAX_EXCEPTIONS else does_not_count}"
