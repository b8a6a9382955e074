"""`python -m dev.chaos.shifted SECONDS ARGUMENTS`: runs our program with a clock that is wrong by SECONDS."""

import sys
from datetime import UTC, datetime, timedelta

import kube.clock


def main() -> None:
    shift = timedelta(seconds=float(sys.argv.pop(1)))
    kube.clock.now = lambda: datetime.now(UTC) + shift
    from cli.main import main as program  # noqa: PLC0415 (its modules must be imported after the clock is replaced)

    sys.exit(program())


if __name__ == "__main__":
    main()
