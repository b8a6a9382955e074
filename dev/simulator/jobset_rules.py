"""What the status of a JobSet cannot say in any cluster, whoever writes it. No API server refuses this."""

from dev.simulator.patches import JSON

COUNTS = ("ready", "succeeded", "failed")


def status_refusal(old: JSON, status: JSON) -> str:
    """Why a JobSet cannot have that status after the one it has, "" if it can."""
    had = old.get("status") or {}
    if status.get("restarts", 0) < had.get("restarts", 0):
        return "status.restarts: a restart cannot be taken back"
    if had.get("terminalState") and had["terminalState"] != status.get("terminalState"):
        return f"status.terminalState: {had['terminalState']} is final"
    replicas = {rjob["name"]: rjob.get("replicas", 1) for rjob in old.get("spec", {}).get("replicatedJobs", ())}
    for entry in status.get("replicatedJobsStatus") or ():
        if sum(entry.get(count, 0) for count in COUNTS) > replicas.get(entry["name"], 0):
            return f"status.replicatedJobsStatus {entry['name']}: more Jobs than there are"
    return ""
