"""The command `jobset demo`. The stories are in dev/demo/stories.py."""

import argparse

from cli.commands import Commands

STORIES = {
    "training": "through failure and restart",
    "fine-tuning": "three stages",
    "platform": "policies",
}
"""The summary of each story."""
DEFAULT_STORY = "training"


def add_demo(commands: Commands) -> None:
    parser = commands.add_parser("demo", help="run a JobSet on a local control plane, as a story that is checked")
    texts = (f"{name}{' (default)' if name == DEFAULT_STORY else ''}: {text}" for name, text in STORIES.items())
    parser.add_argument("story", nargs="?", default=DEFAULT_STORY, choices=STORIES, help="; ".join(texts))
    parser.add_argument(
        "--keep", action="store_true", help="leave cluster and manager running, and say how to use them"
    )
    parser.set_defaults(handler=_demo)


def _demo(parsed: argparse.Namespace) -> int:
    from dev.demo.stories import play  # noqa: PLC0415 (no command pays for what another one imports)

    return play(parsed.story, keep=parsed.keep)
