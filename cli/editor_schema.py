"""The command `jobset schema`, which prints a JSON schema of manifests for editors."""

import argparse
import sys

from cli.commands import Commands, add_command, command_handler

EXAMPLES = """examples:
  %(prog)s > jobset.schema.json
  %(prog)s --kind JobSetPolicy > policy.schema.json

An editor with the YAML language server uses it for a file that begins with this line:
  # yaml-language-server: $schema=jobset.schema.json

It knows types, fields and what they mean. `jobset validate` knows the rules as well.

exit codes:
  0  done
  2  a wrong flag"""

KINDS = ("JobSet", "JobSetPolicy", "JobSetPolicyException")
"""Kinds that have a schema."""


def add_schema(commands: Commands) -> None:
    """Register the command `schema`."""
    description = "Print a JSON schema of manifests, draft 7, with a description of each field."
    parser = add_command(commands, "schema", EXAMPLES, description)
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0], help=f"default: {KINDS[0]}")
    parser.set_defaults(handler=command_handler(_print))


def _print(parsed: argparse.Namespace) -> int:
    from cli.output import dump  # noqa: PLC0415 (only this command needs it)
    from manifests.definition import crd, exception_crd, policy_crd  # noqa: PLC0415 (only this command needs it)
    from manifests.editor_schema import editor_schema  # noqa: PLC0415 (only this command needs it)

    schemas = dict(zip(KINDS, (crd, policy_crd, exception_crd), strict=True))
    sys.stdout.write(dump(editor_schema(schemas[parsed.kind]()), "json"))
    return 0
