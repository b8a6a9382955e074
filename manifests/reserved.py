"""Admission policies that reserve the label by which exclusive placement keeps Jobs apart.

Leaders keep away from every domain that has a pod with this label, in whatever namespace. So whoever may create pods
could keep all leaders out of a domain with one pod of no size. With these policies only the Job controller gives the
label to pods, and only the manager to the pods of a Job. They are opt-in: pods and Jobs with the label that users or
other controllers make are legal without them. Needs ValidatingAdmissionPolicy (Kubernetes 1.30).
"""

from typing import Any

from api import keys
from manifests.naming import NAMESPACE, SERVICE_ACCOUNT, Object, obj

_API = "admissionregistration.k8s.io/v1"
_KIND = "ValidatingAdmissionPolicy"

POD_MAKERS = ("system:serviceaccount:kube-system:job-controller", "system:kube-controller-manager")
"""The Job controller: with credentials of its own, as is usual, and without (--use-service-account-credentials)."""

MANAGER = f"['system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}']"
"""CEL: the names by which the API server knows the manager."""


def _changes_label(labels: str) -> str:
    """CEL: whether an object has the label, and did not have it with this value before. `labels`: where they are."""
    new, old = (f"{name}.{labels}" for name in ("object", "oldObject"))
    label = f"[?'{keys.JOB_KEY}']"
    return (
        f"{new}{label}.hasValue() && !(oldObject != null && {old}{label}.hasValue()"
        f" && {old}{label}.value() == {new}{label}.value())"
    )


def _policy(name: str, group: str, resource: str, labels: str, makers: str, message: str, **match: Any) -> list[Object]:
    """The policy and its binding: of objects that get the label, those of other users are refused."""
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}
    validation = {
        "expression": "request.userInfo.username in variables.makers",
        "message": message,
        "reason": "Forbidden",
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{**rule, "scope": "Namespaced"}], **match},
        "matchConditions": [{"name": "gets-the-label", "expression": _changes_label(labels)}],
        "variables": [{"name": "makers", "expression": makers}],
        "validations": [validation],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        obj(_API, _KIND, name, namespace=None, spec=spec),
        obj(_API, f"{_KIND}Binding", name, namespace=None, spec=binding),
    ]


def reserved_label_policies(manager: Any = MANAGER) -> list[Object]:
    """Two policies and their bindings. `manager`: the names of its account as CEL."""
    why = "it keeps leaders of exclusive placement out of the domain of each pod that has it"
    pods = _policy(
        "jobset-reserved-label-pods",
        "",
        "pods",
        "metadata.?labels",
        str([*POD_MAKERS]),
        f"the label {keys.JOB_KEY} is reserved for pods of JobSets, which the Job controller creates: {why}; remove it"
        " from the pod, or from the template of what creates the pod",
        objectSelector={"matchExpressions": [{"key": keys.JOB_KEY, "operator": "Exists"}]},
    )
    jobs = _policy(
        "jobset-reserved-label-jobs",
        "batch",
        "jobs",
        "spec.template.?metadata.?labels",
        manager,
        f"the label {keys.JOB_KEY} is reserved for pods of JobSets, whose Jobs the JobSet manager creates: {why};"
        " remove it from the pod template",
    )
    return [*pods, *jobs]
