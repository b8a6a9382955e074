"""Hints for patches of kustomize, which may lack fields that the patched manifest has."""

import shlex
from dataclasses import replace
from pathlib import Path

from kube.model.field import FieldError
from webhooks.jobset.engine import Findings
from webhooks.jobset.schema.words import REQUIRED

_FILES = ("kustomization.yaml", "kustomization.yml", "Kustomization")


def with_hint(findings: Findings, file: str) -> Findings:
    """The findings. In a folder of kustomize, a finding about a missing field says how to check the built manifest."""
    if not any(error.rule is REQUIRED for error in findings.errors) or not Path(file).is_file():
        return findings
    folder = Path(file).parent
    if not any((folder / name).is_file() for name in _FILES):
        return findings
    command = f"kubectl kustomize {shlex.quote(str(folder))} | jobset validate -"
    return replace(findings, errors=tuple(_with_command(error, command) for error in findings.errors))


def _with_command(error: FieldError, command: str) -> FieldError:
    if error.rule is not REQUIRED:
        return error
    return replace(error, hint=f"{error.fix}; if this is a patch of kustomize, check what comes out: `{command}`")
