"""`python -m dev.chaos`: three replicas under load and faults, judged from the API server and its audit log.

Prints figures and violations, and stores them as JSON with the logs of the replicas. The exit code is 1 if there is a
violation. The same seed gives the same JobSets, and the same faults at the same times.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from dev.chaos.faults import GENTLE_KINDS, TRAITS, Kind
from dev.chaos.run import JOBSETS_AT_ONCE, RESULTS_FILE, Options, report, run
from dev.cluster.errors import DevclusterError

EXAMPLES = """faults:
{faults}

examples:
  %(prog)s                                   20 minutes of every fault
  %(prog)s --seed 7 --minutes 3              a short run, again the same with the same seed
  %(prog)s --faults kill,pause --minutes 2   only these
  %(prog)s --faults none --minutes 1         the load alone: what every set has to come to
  %(prog)s --soak                            only faults that no process dies of; memory is compared"""


def main() -> int:
    options = _options()
    seconds = options.minutes * 60
    try:
        results = run(Options(options.seed, seconds, options.faults, options.out, options.sets))
    except DevclusterError as error:
        print(error, file=sys.stderr)
        return 2
    text = json.dumps(results, indent=1)
    (options.out / RESULTS_FILE).write_text(text + "\n", encoding="utf-8")
    print(text if options.output == "json" else "\n".join(report(results)))
    return 1 if results["violations"] else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m dev.chaos",
        description=__doc__,
        epilog=EXAMPLES.format(faults="\n".join(f"  {kind:12} {TRAITS[kind].meaning}" for kind in Kind)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1, help="of sets and faults (default %(default)s)")
    parser.add_argument("--minutes", type=_minutes, default=20.0, help="of load and faults (default %(default)g)")
    parser.add_argument("--faults", type=_kinds, default=list(Kind), metavar="KIND,...", help="all, none, or some")
    parser.add_argument(
        "--soak", action="store_const", dest="faults", const=list(GENTLE_KINDS), help="the gentle ones only"
    )
    parser.add_argument("--sets", type=_sets, default=JOBSETS_AT_ONCE, help="at once, 1 to 100 (default %(default)s)")
    folder = Path("build", "chaos", time.strftime("%Y%m%d-%H%M%S"))
    parser.add_argument("--out", type=Path, default=folder, help="folder of the results (default build/chaos/TIME)")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default %(default)s)")
    options = parser.parse_args()
    if options.out.exists() and any(options.out.iterdir()):
        parser.error(f"--out: {options.out} is not empty")
    options.out.mkdir(parents=True, exist_ok=True)
    options.out = options.out.absolute()
    return options


def _minutes(text: str) -> float:
    if not 0 < (number := float(text)) <= 24 * 60:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and a day")
    return number


def _sets(text: str) -> int:
    if not 0 < (number := int(text)) <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 100")
    return number


def _kinds(text: str) -> list[Kind]:
    if text in {"all", "none"}:
        return list(Kind) if text == "all" else []
    names = text.split(",")
    if unknown := set(names) - set(Kind):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not among {', '.join(Kind)}, all, none")
    return [Kind(name) for name in names]


if __name__ == "__main__":
    sys.exit(main())
