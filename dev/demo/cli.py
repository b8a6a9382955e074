"""The command `jobset demo`. The stories are in dev/demo/stories.py."""

import argparse

from cli.commands import Commands

STORIES = {
    "training": "(default): through failure and restart",
    "fine-tuning": "three stages",
    "platform": "policies",
}
"""The summary of each story."""


def add_demo(commands: Commands) -> None:
    """Register `demo`."""
    parser = commands.add_parser("demo", help="run a JobSet on a local control plane, as a story that is checked")
    about = "; ".join(f"{name} {text}" if text.startswith("(") else f"{name}: {text}" for name, text in STORIES.items())
    parser.add_argument("story", nargs="?", default="training", choices=STORIES, help=about)
    parser.add_argument(
        "--keep", action="store_true", help="leave cluster and manager running, and say how to use them"
    )
    parser.set_defaults(handler=_demo)


def _demo(parsed: argparse.Namespace) -> int:
    from dev.demo.stories import play  # noqa: PLC0415 (no command pays for what another one imports)

    return play(parsed.story, keep=parsed.keep)
