"""Controllers of cert-manager, which `main.go` starts, and its CRDs, all from the Go module that go.mod pins.

For the tests of the certificates: nothing else needs cert-manager.
"""

from pathlib import Path

from tests.support.programs import Program

CERT_MANAGER = Program(
    "certmanager", Path(__file__).parent, "certmanager", data=("github.com/cert-manager/cert-manager", "deploy/crds")
)
