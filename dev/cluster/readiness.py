"""Probes whether the processes beside the control plane are ready, at the URLs that they have stored."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping

from dev.cluster.spec import Layout

PROBE_SECONDS = 2.0
"""Time limit of a probe. It is short, since `jobset cluster status` probes the processes of all clusters."""
_NO_PROXY_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def unready_lines(report: Mapping[str, Mapping[str, object]], layout: Layout) -> str:
    """A line for each process that runs and is not ready, with the reason. `report`: from `KeptProcesses.report`."""
    return "\n".join(
        f"{name} runs and is not ready: {reason}. Its log: {layout.log(name)}"
        for name, each in report.items()
        if each["process"] and (reason := _unready_reason(layout, name))
    )


def _unready_reason(layout: Layout, name: str) -> str:
    """The reason why a process is not ready; empty if it is ready, or has no probe."""
    path = layout.probe(name)
    if not path.is_file():
        return ""
    try:
        with _NO_PROXY_OPENER.open(path.read_text(), timeout=PROBE_SECONDS):
            return ""
    except urllib.error.HTTPError as answer:
        lines = answer.read().decode(errors="replace").splitlines()
        faults = [line.removeprefix("[-]") for line in lines if line.startswith("[-]")]
        return "; ".join(faults) or f"it answers {answer.code}"
    except (OSError, http.client.HTTPException) as error:
        return f"it does not answer: {error}"
