"""What the commands of a local cluster say about arguments that cannot be meant, before anything starts."""

import pytest

from cli.main import main


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--nodes", "many"], "--nodes: 'many' is not a whole number"),
        (["--qps", "fast"], "--qps: 'fast' is not a whole number"),
        (["--label-every", "rack"], "--label-every: 'rack' is not of the form KEY=SIZE"),
        (["--feature-gate", "X"], "--feature-gate: 'X' is not of the form NAME=true|false"),
        (["--capacity", "cpu"], "--capacity: 'cpu' is not of the form RESOURCE=QUANTITY"),
        (
            ["--capacity", "cpu=lots"],
            "--capacity: 'lots' is not a quantity: write one such as 8, 500m or 64Gi after the =",
        ),
        (["--capacity", "cpu=-1"], "--capacity: '-1' is not a quantity"),
    ],
)
def test_what_cannot_be_meant_is_named_in_words(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["cluster", "up", *arguments])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err
