"""The examples are what a user starts from."""

import pytest

from cli import main as cli
from tests.support.cluster import agents


@pytest.mark.parametrize("name", ["in-place-restart.yaml", "in-place-restart-sidecar.yaml"])
def test_they_pass_validation_where_the_feature_is_on(name, capsys):
    file = str(agents.ROOT / "examples" / name)
    assert cli.main(["validate", "--strict", "--feature-gates=InPlaceRestart=true", "-f", file]) == 0
    assert cli.main(["validate", "-f", file]) == 1
    assert "--feature-gates=InPlaceRestart=true" in capsys.readouterr().out
