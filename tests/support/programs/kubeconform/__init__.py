"""kubeconform, from the Go module that go.mod pins. For the test of what the manifests and the chart render."""

from pathlib import Path

from tests.support.programs import Program

KUBECONFORM = Program("kubeconform", Path(__file__).parent, "github.com/yannh/kubeconform/cmd/kubeconform")
