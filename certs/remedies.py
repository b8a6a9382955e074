"""Texts that say how to repair objects of an installation that are missing or have changed. Pure."""

from collections.abc import Iterable

from certs.bundles import is_called_by_url
from kube.model.meta import JSON

_START_DEMO = "for a demo, start it again: jobset cluster down --name demo && jobset demo --keep"
APPLY_AGAIN = (
    f"apply again what you have installed (your kustomization or chart, or manifests/install.yaml); {_START_DEMO}"
)
"""The fix for most missing objects. Applying only install.yaml would reset the image and the number of replicas."""

APPLY_AGAIN_WITHOUT_SERVICE = (
    "apply again what you have installed, but not manifests/install.yaml, which has a Service called in place of a URL;"
    f" {_START_DEMO}"
)
"""The fix for missing objects of a manager outside the cluster, which has no Service."""


def apply_again_remedy(configurations: Iterable[JSON | None]) -> str:
    """The fix for missing objects of an installation with these webhook configurations."""
    return (
        APPLY_AGAIN_WITHOUT_SERVICE
        if any(is_called_by_url(configuration) for configuration in configurations if configuration)
        else APPLY_AGAIN
    )


def injector_remedy(kind: str, name: str, annotation: str) -> str:
    """The fix if `annotation` asks another program to write `caBundle`, and that program has not written our CA."""
    return (
        f"annotation {annotation} asks another program to write caBundle: see its log, or have the manager write it:"
        f" kubectl annotate {kind.lower()} {name} {annotation}-"
    )


def create_secret_command(namespace: str, name: str) -> str:
    """The command that creates the Secret of the certificates again, for any kind of installation."""
    return f"kubectl create secret generic -n {namespace} {name}"
