"""JobSets of one run of `jobset validate` that share a name, or a Service."""

import pytest
import yaml

from tests.support.objects.jobsets import jobset

SHARED = 'warning: spec.network.subdomain: JobSet "a" has the Service net, too: it selects only that set\'s pods'


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (jobset(name="b", network={"subdomain": "net"}), SHARED),
        (jobset(name="net"), SHARED.replace("spec.network.subdomain", "metadata.name")),
        (jobset(name="a", network={"subdomain": "net"}), ""),
        (jobset(name="b", namespace="elsewhere", network={"subdomain": "net"}), ""),
        (jobset(name="b", network={"subdomain": "net", "enableDNSHostnames": False}), ""),
        (jobset(name="b"), ""),
    ],
)
def test_jobsets_of_one_run_with_the_same_service(validate, write, second, words):
    first = write(yaml.safe_dump(jobset(name="a", network={"subdomain": "net"})))
    code, out, _ = validate("-f", first, "-f", write(yaml.safe_dump(second), "second.yaml"))
    assert code == 0
    assert (words in out, "has the Service" in out) == (True, bool(words))
    assert out.splitlines()[-1].startswith("2 files, 2 JobSets, 0 errors, ")


def test_a_name_that_a_file_has_twice_is_a_warning_with_the_line_of_the_first(validate, write):
    one, other, unnamed = jobset(name="a"), jobset(name="a", namespace="b"), jobset()
    unnamed["metadata"] = {"generateName": "a"}
    text = yaml.safe_dump_all([one, other, one, unnamed, unnamed])
    first = 1 + text.splitlines().index("  name: a")
    code, out, _ = validate(write(text))
    assert (code, out.count("warning: ")) == (0, 1)
    assert f"JobSet default/a: metadata.name: the JobSet in line {first} has this name, too: applied after it" in out
    assert validate(write(yaml.safe_dump(one), "b.yaml"), write(yaml.safe_dump(one), "c.yaml"), "--strict")[0] == 0
    assert validate(write(yaml.safe_dump(one), "b.yaml"), write(yaml.safe_dump(one), "b.yaml"), "--strict")[0] == 0
