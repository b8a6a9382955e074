"""Why a PersistentVolumeClaim of a pod has no volume. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from api.jobset import JobSet
from api.names import volume_claim_name
from api.paths import claim_templates
from diagnose.case import Case
from diagnose.facts import SeenClaim, SeenPod, SeenStorageClass
from diagnose.finding import Finding, Level
from diagnose.fixes import recreation_command
from kube.model.field import join_names
from kube.model.suggest import nearest

_Classes = Sequence[SeenStorageClass] | None
"""The StorageClasses of the cluster; None if they are not known."""
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_VOLUME_FIX = "kubectl get pv lists the volumes; have an administrator of the cluster"
_PROVISIONER_FIX = (
    "have an administrator of the cluster install a provisioner of volumes with a StorageClass that is the default, or"
    " create the volume"
)


def unbound_claim(case: Case, pod: SeenPod) -> Finding | None:
    """The finding about the first claim of the pod that is missing or not bound; None if no such claim is known.

    The `message` of the finding is a sentence about the claim.
    """
    for name in pod.spec.claims_of(pod.name):
        if name not in case.facts.claims:
            continue
        claim, source = case.facts.claims[name], _source(case.facts.jobset, name, pod)
        if claim is None:
            level, message = Level.WAITS if source.path else Level.FAULT, f"there is no PersistentVolumeClaim {name}"
            return Finding(level, "no-claim", message, fix=source.creation_hint)
        if claim.status.phase != "Bound":
            message, fix = _why_unbound(source, claim, case.facts.storage_classes)
            return Finding(Level.FAULT, "claim-pending", message, fix=fix)
    return None


@dataclass(frozen=True, slots=True)
class _Source:
    """What creates a claim of a pod.

    - `path`: the path of its template in the JobSet, or words for the path; empty if the user creates the claim.
    - `is_retained`: whether the claim outlives the JobSet.
    - `maker`: the component that creates a claim from the template.
    """

    name: str
    js: JobSet
    path: str
    is_retained: bool = False
    maker: str = "the manager"

    @property
    def arguments(self) -> str:
        return f"-n {self.js.metadata.namespace}"

    @property
    def creation_hint(self) -> str:
        """What to do about a claim that does not exist."""
        if self.path:
            return f"look again in a moment: {self.maker} creates it"
        return f"create PersistentVolumeClaim {self.name}: kubectl get pvc {self.arguments} lists those there are"

    def new_class_fix(self, present_class: str | None, meant: str) -> str:
        """How to replace the claim by a claim of another StorageClass.

        `meant`: the class that the user likely meant; empty if unknown.
        """
        if not self.path:
            return f"kubectl delete pvc {self.name} {self.arguments} and create it with another class"
        if present_class and meant and not self.is_retained:
            return recreation_command(self.js, f"storageClassName: {present_class}$", f"storageClassName: {meant}")
        change = f"storageClassName: {meant}" if meant else "another storageClassName"
        drop = f" (delete the claim between both, which stays: kubectl delete pvc {self.name} {self.arguments})"
        spec_path = f"{self.path}.spec" if self.path.startswith("spec.") else self.path
        return f"write {change} at {spec_path} in a new JobSet{drop if self.is_retained else ''}"


def _source(js: JobSet, name: str, pod: SeenPod) -> _Source:
    if name in pod.spec.ephemeral_claims(pod.name):
        template_of_pod = "volumes[].ephemeral.volumeClaimTemplate of the pod template"
        return _Source(name, js, template_of_pod, maker="kube-controller-manager")
    for path, template, _, policy in claim_templates(js):
        if volume_claim_name((template.get("metadata") or {}).get("name", ""), js.metadata.name) == name:
            is_retained = policy.retention_policy is not None and policy.retention_policy.when_deleted == "Retain"
            return _Source(name, js, str(path), is_retained)
    return _Source(name, js, "")


def _why_unbound(source: _Source, claim: SeenClaim, classes: _Classes) -> tuple[str, str]:
    """The message about a claim that has no volume, and its fix."""
    wanted = claim.spec.storage_class_name
    has_default = any(item.metadata.annotations.get(_DEFAULT) == "true" for item in classes or ())
    message = f"claim {source.name} is {claim.status.phase or 'Pending'}"
    if wanted:
        causes, fix = _why_not_provisioned(source, claim, wanted, classes)
    elif wanted == "":
        causes = "it asks for no StorageClass, and no volume without one is free and large enough"
        fix = f"{_VOLUME_FIX} create one ({claim.requirements}), or {source.new_class_fix(None, '')}"
    elif classes is not None and not classes:
        causes, fix = "it names no StorageClass, and the cluster has none", _PROVISIONER_FIX
    elif classes is not None and not has_default:
        causes = "it names no StorageClass, and none of the cluster is the default one"
        default = f'\'{{"metadata":{{"annotations":{{"{_DEFAULT}":"true"}}}}}}\''
        patch = f"kubectl patch storageclass {_names(classes)[0]} -p {default}"
        fix = f"have an administrator of the cluster run {patch}, or {source.new_class_fix(None, _names(classes)[0])}"
    else:
        return message, f"kubectl describe pvc {source.name} {source.arguments} says why; kubectl get storageclass"
    return f"{message}: {causes}", fix


def _why_not_provisioned(source: _Source, claim: SeenClaim, wanted: str, classes: _Classes) -> tuple[str, str]:
    """Why a claim that names the StorageClass `wanted` has no volume, and the fix."""
    provisioner = "" if classes is None else {item.metadata.name: item.provisioner for item in classes}.get(wanted)
    if classes is not None and provisioner is None:
        meant = nearest(wanted, _names(classes))
        existing = f"there are: {join_names(_names(classes))}" if classes else "there is none at all"
        message = f"there is no StorageClass {wanted}; {existing}" + (f"; did you mean {meant}?" if meant else "")
        return message, f"{source.new_class_fix(wanted, meant)}; or have an administrator create StorageClass {wanted}"
    if provisioner == _NO_PROVISIONER:
        message = f"no PersistentVolume of StorageClass {wanted} is free and fits ({claim.requirements})"
        message = f"{message}, and this class makes none"
        return message, f"{_VOLUME_FIX} create one that fits, or {source.new_class_fix(wanted, '')}"
    provisioner = provisioner or "its provisioner"
    message = f"StorageClass {wanted} has not made a volume; that is done by {provisioner}"
    return message, f"kubectl describe pvc {source.name} {source.arguments} shows what {provisioner} says"


def _names(classes: _Classes) -> list[str]:
    return sorted(storage_class.metadata.name for storage_class in classes or ())
