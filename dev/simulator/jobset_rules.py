"""Refuse statuses of a JobSet that no correct controller writes. A real API server would accept them."""

from kube.model.meta import JSON

COUNTS = ("ready", "succeeded", "failed")


def status_refusal(old: JSON, status: JSON) -> str:
    """Return why the next status of a JobSet is impossible; "" if it is possible. `old` is the stored JobSet."""
    old_status = old.get("status") or {}
    if status.get("restarts", 0) < old_status.get("restarts", 0):
        return "status.restarts: a restart cannot be taken back"
    if old_status.get("terminalState") and old_status["terminalState"] != status.get("terminalState"):
        return f"status.terminalState: {old_status['terminalState']} is final"
    replicas = {rjob["name"]: rjob.get("replicas", 1) for rjob in old.get("spec", {}).get("replicatedJobs", ())}
    for entry in status.get("replicatedJobsStatus") or ():
        if sum(entry.get(count, 0) for count in COUNTS) > replicas.get(entry["name"], 0):
            return f"status.replicatedJobsStatus {entry['name']}: more Jobs than there are"
    return ""
