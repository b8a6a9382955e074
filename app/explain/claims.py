"""Why a claim of a pod has no volume. Pure."""

from api.suggest import nearest
from app.explain.case import Case
from app.explain.facts import SeenClaim, SeenPod
from app.explain.finding import Finding, Level, listed

_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def unbound(case: Case, pod: SeenPod) -> Finding | None:
    """The first claim of the pod that is missing or pending, and which StorageClass it lacks; None if none is known.

    The `what` of the finding is a sentence about the claim.
    """
    where = f"-n {pod.metadata.namespace}"
    for name in pod.spec.claims:
        if name not in case.facts.claims:
            continue
        claim = case.facts.claims[name]
        if claim is None:
            return Finding(
                level=Level.FAULT,
                cause="no-claim",
                what=f"there is no PersistentVolumeClaim {name}",
                fix=f"create PersistentVolumeClaim {name}: kubectl get pvc {where} lists those there are",
            )
        if claim.status.phase != "Bound":
            return _pending(case, name, claim, where)
    return None


def _pending(case: Case, name: str, claim: SeenClaim, where: str) -> Finding:
    wanted, classes = claim.spec.storage_class_name, case.facts.storage_classes
    describe = f"kubectl describe pvc {name} {where}"
    what, fix = f"claim {name} is {claim.status.phase or 'Pending'}", f"{describe} says why; kubectl get storageclass"
    if classes is not None and wanted and classes.provisioner(wanted) is None:
        meant = nearest(wanted, classes.names)
        there = f"there are: {listed(classes.names)}" if classes.names else "there is none at all"
        what = f"{what}: there is no StorageClass {wanted}; {there}" + (f"; did you mean {meant}?" if meant else "")
        fix = f"create StorageClass {wanted}, or kubectl delete pvc {name} {where} and create it with another class"
    elif wanted:
        by = (classes.provisioner(wanted) if classes is not None else "") or "its provisioner"
        what = f"{what}: StorageClass {wanted} has not made a volume; that is done by {by}"
        fix = f"{describe} shows what {by} says"
    elif wanted == "":
        what = f"{what}: it asks for no StorageClass, and no volume without one is free and large enough"
        fix = "kubectl get pv lists the volumes; create one, or the claim again with a storageClassName"
    elif classes is not None and not classes.names:
        what = f"{what}: it names no StorageClass, and the cluster has none"
        fix = "install a provisioner of volumes with a StorageClass that is the default, or create the volume yourself"
    elif classes is not None and not any(of.metadata.annotations.get(_DEFAULT) == "true" for of in classes.there):
        what = f"{what}: it names no StorageClass, and none of the cluster is the default one"
        mark = f'\'{{"metadata":{{"annotations":{{"{_DEFAULT}":"true"}}}}}}\''
        fix = f"kubectl patch storageclass {classes.names[0]} -p {mark}"
    return Finding(level=Level.FAULT, cause="claim-pending", what=what, fix=fix)
