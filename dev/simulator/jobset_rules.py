"""States of a JobSet that no correct controller writes. A real API server would accept them."""

from kube.model.meta import JSON

COUNTS = ("ready", "succeeded", "failed")


def status_refusal(old: JSON, status: JSON) -> str:
    """Why the next status of a JobSet is impossible; "" if it is possible."""
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
