"""Prints the results of a run: a table for each phase, single measurements, and the goals."""

from dev.bench import many, plan, report, saturation
from dev.bench.goals import cpu_seconds, goals
from dev.bench.output import cells, machine_text, print_table, print_text
from kube.model.meta import JSON

TITLES = {
    "P1": "a JobSet of 300 Jobs with a pod each is created",
    "P2": "one of its pods fails: all 300 Jobs are created again",
    "P3 plain create": "a JobSet of 40 Jobs with 10 pods each is created, without exclusive placement",
    "P3 plain restart": "one of its pods fails",
    "P3 create": "the same 40 x 10 pods, each Job alone on one of 60 racks",
    "P3 restart": "one of its pods fails",
    "P4": "150 JobSets of two Jobs are created at once",
    "P5 suspend": "the JobSet of 300 Jobs is suspended, until no pod runs",
    "P5 resume": "it is resumed, until all pods run",
    "P6 alone": "50 JobSets of one pod: seconds is the longest wait for it",
    "P6 beside": "the same just after a JobSet of 2,000 Jobs",
    "P6 large": "that JobSet of 2,000 Jobs",
    "P13 create": "40 suspended JobSets of two Jobs are created, beside a webhook for Jobs that looks for their JobSet",
    "P13 admit": "they are resumed with a node selector, as by a queue, until all pods run",
    "P13 finish": "their pods succeed, until all JobSets are Completed",
    "P19 create": f"{many.SETS:,} JobSets of {many.JOBS} Jobs are created at once",
    "P19 rest": "they are at rest",
    "P19 failures": f"a Job fails in some of them, {many.FAILURES_PER_SECOND} a second",
    "P19 start": "another manager starts that has all of them, until it is at rest",
    "P19 takeover": "the leader ends: seconds until a standby has the Lease",
    "P19 deletion": "the namespace is deleted",
    "P23 create": "6 Jobs of two pods are created on two real nodes",
    "P23 restart": "the program of one pod fails there, all Jobs are created again",
}


def show(results: JSON, *, calls: bool) -> None:
    """Print the results. With `calls`, also print every call by verb, resource and code."""
    print_text(
        f"{machine_text(results['machine'])} at the start; revision {results['revision']}; {results['nodes']} fake"
        f" nodes; {results['seconds'] / 60:.0f} minutes"
    )
    if results["scale"] != 1:
        print_text(f"Scaled to {results['scale']:g} of the sizes below: no figure here is comparable.")
    for name in (name for name in TITLES if name in report.phase_names(results)):
        print_table(report.phase_rows(results, name), f"{name}: {TITLES[name]}")
        if calls:
            print_table(report.call_rows(results, name), f"{name}: calls by verb, resource and code")
    print_table(_resource_rows(results), "P10: through P1 to P4")
    for manager, rows in results["admission"].items():
        lines = [{"processes": str(row["workers"]), **cells(saturation.COLUMNS, row)} for row in rows]
        print_table(lines, f"P8 and P9: admission of {manager} at saturation; {saturation.UNITS}")
    if "plan" in results:
        plan.show(results["plan"])
    for manager in report.manager_names(results, floor=False):
        print_table([goal.row() for goal in goals(results, manager)], f"goals: {manager}")
    for error in report.errors(results):
        print_text(f"failed: {error}")


def _resource_rows(results: JSON) -> list[dict[str, str]]:
    rows = []
    for manager in report.manager_names(results):
        phases_after = report.figures_by_round(results, manager, "P4").values()
        turns = [turn for turn in results["turns"] if turn["manager"] == manager]
        spreads = {
            "idle RSS (MiB)": report.Spread.at(turns, "idle_rss_mib"),
            "RSS after (MiB)": report.Spread.at(phases_after, "rss_mib"),
            "idle PSS (MiB)": report.Spread.at(turns, "idle_pss_mib"),
            "PSS after (MiB)": report.Spread.at(phases_after, "pss_mib"),
            "CPU (s)": report.Spread.from_figures(cpu_seconds(results, manager)),
        }
        if phases_after:
            texts = {title: spread.text() if spread else "-" for title, spread in spreads.items()}
            rows.append({"manager": manager, **texts})
    return rows
