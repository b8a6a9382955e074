"""Helm 3 and 4, from the Go modules that `v3/` and `v4/` pin.

For the tests of the chart: nothing else needs Helm.
"""

from pathlib import Path

from tests.support.programs import Program

VERSIONS = (3, 4)
HELM = {
    version: Program("helm", Path(__file__).parent / f"v{version}", f"helm.sh/helm/v{version}/cmd/helm")
    for version in VERSIONS
}
