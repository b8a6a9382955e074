"""What is suggested for a name that does not exist."""

import pytest

from kube.model.suggest import did_you_mean


@pytest.mark.parametrize(
    ("word", "names", "text"),
    [
        ("werkers", ["driver", "workers"], 'did you mean "workers"? there are: "driver", "workers"'),
        ("WORKERS", ["workers", "driver"], 'did you mean "workers"? there are: "workers", "driver"'),
        ("x", ["workers", "workers"], 'there are: "workers"'),
        ("worker", ["workers"], 'did you mean "workers"?'),
        ("gpu", ["driver", "workers"], 'there are: "driver", "workers"'),
        ("gpu", [], ""),
        ("x", [f"n{i}" for i in range(20)], 'there are: "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", ...'),
    ],
)
def test_text(word: str, names: list[str], text: str):
    assert did_you_mean(word, names) == text
