"""The admission policy that binds an agent of in-place restarts to its own pod: RBAC has no word for "its own".

A token that a pod gets names the pod. Needs ValidatingAdmissionPolicy of admissionregistration.k8s.io/v1 and these
names in tokens: Kubernetes 1.30.
"""

from api import keys
from manifests.naming import Object, obj

ACCOUNT = "in-place-restart"
"""Name of the ServiceAccounts, in whatever namespace, that may do nothing else to pods."""

_API = "admissionregistration.k8s.io/v1"
_NAME = "jobset-in-place-restart-agent"
_KEY = f"'{keys.IN_PLACE_RESTART_ATTEMPT}'"
_OWN_POD = " && ".join(
    [
        "request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':')",
        *(
            f"request.userInfo.?extra[?'authentication.kubernetes.io/pod-{part}'].orValue([])"
            f" == [oldObject.metadata.{part}]"
            for part in ("name", "uid")
        ),
    ]
)
_ONLY_REPORT = " && ".join(
    [
        (
            f"variables.after.all(key, key == {_KEY} ||"
            " (key in variables.before && variables.before[key] == variables.after[key]))"
        ),
        f"variables.before.all(key, key == {_KEY} || key in variables.after)",
        *(
            f"object.metadata.?{field} == oldObject.metadata.?{field}"
            for field in ("labels", "finalizers", "ownerReferences")
        ),
        "object.spec == oldObject.spec",
    ]
)


def agent_policy() -> list[Object]:
    """The policy and its binding.

    A report is written by the pod that it is about, whichever ServiceAccount it has; `ACCOUNT` writes nothing else.
    People and programs that are no ServiceAccount are not concerned, nor is any other change of a pod.
    """
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {
                "name": "service-accounts",
                "expression": "request.userInfo.username.startsWith('system:serviceaccount:')",
            },
            {
                "name": "agents-and-reports",
                "expression": f"request.userInfo.username.endsWith(':{ACCOUNT}') ||"
                f" object.metadata.?annotations[?{_KEY}] != oldObject.metadata.?annotations[?{_KEY}]",
            },
        ],
        "variables": [
            {"name": "before", "expression": "oldObject.metadata.?annotations.orValue({})"},
            {"name": "after", "expression": "object.metadata.?annotations.orValue({})"},
        ],
        "validations": [
            {
                "expression": _OWN_POD,
                "message": f"only a pod itself reports {keys.IN_PLACE_RESTART_ATTEMPT}: use the token that the pod has"
                " got, and change no other pod",
                "reason": "Forbidden",
            },
            {
                "expression": f"!request.userInfo.username.endsWith(':{ACCOUNT}') || ({_ONLY_REPORT})",
                "message": f"the ServiceAccount {ACCOUNT} may change nothing of a pod but the annotation"
                f" {keys.IN_PLACE_RESTART_ATTEMPT}",
                "reason": "Forbidden",
            },
        ],
    }
    binding = {"policyName": _NAME, "validationActions": ["Deny"]}
    return [
        obj(_API, "ValidatingAdmissionPolicy", _NAME, namespace=None, spec=spec),
        obj(_API, "ValidatingAdmissionPolicyBinding", _NAME, namespace=None, spec=binding),
    ]
