"""The flags of `jobset init`, which prints a manifest for a framework, or from the object of another controller."""

import argparse
from collections.abc import Callable

from cli.commands import Commands, add_command, run_module, whole_number
from kube.model.validation import dns1035_label

FRAMEWORKS = {"torchrun": "pytorch", "jax": "jax", "mpi": "mpi", "ray": "ray"}
"""The name of the example in examples/frameworks, by framework."""
OPTIONAL_PARTS = ("checkpoints", "watchdog")
MAX_NODES, MAX_GPUS, LONGEST_NAME = 4096, 64, 40
EXAMPLES = """examples:
  %(prog)s torchrun --nodes 8 --gpus 8 > train.yaml
  %(prog)s jax --nodes 4 --gpus 0 --without watchdog | kubectl apply -f -
  %(prog)s --from pytorchjob.yaml > jobset.yaml      a PyTorchJob, an MPIJob or a Job; - is standard input

The manifest of a framework has a program that runs as it is: the processes find each other, compute one result and end.
It also has a volume for checkpoints, shared memory, and a watchdog that ends workers that hang. Comments say what to
change. --from prints a JobSet for each object of the file; standard error lists what has no equivalent, or another
meaning, line by line. Nothing is sent to a cluster.

exit codes:
  0  printed
  1  the file has faults, or no object that can be converted
  2  wrong usage, or a file that cannot be read"""


def add_init(commands: Commands) -> None:
    """Register the command `init`."""
    description = "Print a manifest for a framework, or convert a PyTorchJob, an MPIJob or a Job."
    parser = add_command(commands, "init", EXAMPLES, description)
    add = parser.add_argument
    add("framework", nargs="?", choices=tuple(FRAMEWORKS), help="torchrun, jax, mpi or ray")
    add("--from", dest="file", metavar="FILE", help="convert the objects of this file, or of standard input (-)")
    add("--nodes", type=_number_between(1, MAX_NODES), metavar="N", help="number of pods; default: 4")
    add("--gpus", type=_number_between(0, MAX_GPUS), metavar="N", help="GPUs of each pod, 0 for none; default: 1")
    add("--name", type=_name, metavar="NAME", help="name of the JobSet; default: the framework")
    add("--without", action="append", choices=OPTIONAL_PARTS, help="leave out this part; repeatable")
    handler = run_module("cli.init.run")

    def handle(parsed: argparse.Namespace) -> int:
        framework_flags = (parsed.nodes, parsed.gpus, parsed.name, parsed.without)
        if (parsed.framework is None) == (parsed.file is None):
            parser.error(f"name a framework ({', '.join(FRAMEWORKS)}), or a file to convert with --from")
        if parsed.file is not None and any(value is not None for value in framework_flags):
            parser.error("--nodes, --gpus, --name and --without belong to a framework: a file has its own")
        return handler(parsed)

    parser.set_defaults(handler=handle)


def _number_between(minimum: int, maximum: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = whole_number(text)
        if not minimum <= value <= maximum:
            raise argparse.ArgumentTypeError(f"{value}: write a number from {minimum} to {maximum}")
        return value

    return number


def _name(text: str) -> str:
    complaints = dns1035_label(text)
    if complaints or len(text) > LONGEST_NAME:
        reason = complaints[0] if complaints else f"at most {LONGEST_NAME} characters, since names of pods are longer"
        raise argparse.ArgumentTypeError(f"{text[:LONGEST_NAME]!r}: {reason}")
    return text
