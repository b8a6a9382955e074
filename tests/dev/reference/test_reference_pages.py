"""The pages of docs/reference keep up with the code: nothing is missing there, and words are those that users get."""

import re
from pathlib import Path

import pytest
from msgspec.structs import fields

from api import execution, jobset, jobset_status, keys, policies
from api.features import GATES
from app.settings import Settings
from app.settings_file import parse
from authoring.rule_catalogue import all_rules
from cli import main as cli
from dev.reference.pages import template_markdown

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
RULES = {rule.id: rule for rule in all_rules()}
CITATION = re.compile(r"docs/reference/validation\.md#([\w-]+)")


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text(encoding="utf-8")


def code(text: str) -> set[str]:
    """Words that stand on a page as code."""
    return {word for piece in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"[A-Za-z][\w-]*", piece)}


@pytest.mark.parametrize(
    "record",
    [
        jobset.JobSetSpec,
        jobset.ReplicatedJob,
        jobset.DependsOn,
        jobset.Network,
        jobset.Coordinator,
        jobset.VolumeClaimPolicy,
        jobset.VolumeClaimRetention,
        jobset_status.JobSetStatus,
        jobset_status.ReplicatedJobStatus,
        policies.SuccessPolicy,
        policies.FailurePolicy,
        policies.FailurePolicyRule,
        policies.StartupPolicy,
        execution.ExecutionPolicy,
    ],
)
def test_every_field_is_on_the_page_of_the_api(record: type):
    assert {field.encode_name for field in fields(record)} - code(page("api")) == set()


def test_every_key_is_on_the_page_of_names_and_labels():
    ours = {value for value in vars(keys).values() if isinstance(value, str) and "jobset.sigs.k8s.io/" in value}
    assert {key for key in ours - {keys.CONTROLLER_NAME} if f"`{key}`" not in page("names-and-labels")} == set()


def test_every_gate_is_on_the_page_of_the_manager():
    assert {gate for gate in GATES if f"| {gate} " not in page("manager")} == set()


def test_every_flag_is_on_the_page_of_the_configuration(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        cli.main(["manager", "--help"])
    options = capsys.readouterr().out.partition("options:")[2]
    flags = set(re.findall(r"^ +(?:-o, |-o [^,]*, )?(--[a-z-]+)", options, re.MULTILINE))
    assert len(flags) > 10
    assert flags - set(re.findall(r"(--[a-z-]+)`", page("configuration"))) == set()


def test_every_setting_has_its_row_on_the_page_of_the_configuration():
    for section in Settings.model_fields.values():
        for field in getattr(section.annotation, "model_fields", {}).values():
            row = rf"^\| `{field.alias}`(?: \*\*\+\*\*)? \| [^|]+ \| [^|]+ \| [A-Z`][^|]+ \|$"
            assert re.search(row, page("configuration"), re.MULTILINE), field.alias


def test_what_the_go_manager_lacks_is_marked():
    marked = re.findall(r"`([\w-]+)` \*\*\+\*\*", page("configuration"))
    extensions = {
        "workers",
        "clientCAFile",
        "keyAlgorithm",
        "childDryRun",
        "limits",
        "suspend",
        "exclusivePlacement",
        "scheduling",
        "nodeFailure",
        "policies",
    }
    assert {name for name in marked if not name.startswith("-")} == extensions
    assert "An extension" not in page("configuration")


def test_the_examples_of_the_configuration_can_be_used():
    examples = re.findall(r"```yaml\n(.*?)```", page("configuration"), re.DOTALL)
    assert len(examples) == 1 + len(
        [name for name in Settings.model_fields if hasattr(getattr(Settings(), name), "model_fields_set")]
    )
    parse("".join(examples))


VALIDATION = "\n".join(
    page(f"validation{part}") for part in ("", "-cluster", "-failures", "-pods", "-queues", "-updates")
)


def rows() -> dict[str, tuple[str, str]]:
    """Of each rule on the pages of validation the anchor of its section, and the words that stand there."""
    found, anchor = {}, ""
    for line in VALIDATION.splitlines():
        if line.startswith("#"):
            anchor = line.lstrip("# ").lower().replace(" ", "-")
        elif row := re.match(r"\| `([a-z-]+)`(?: \(warning\))? \|.*?\|.*?\| (.*) \|$", line):
            found[row[1]] = (anchor, row[2])
    return found


def test_the_anchors_that_rules_cite_are_on_the_page_of_validation_itself():
    """Where a section has moved to another page, its heading says so."""
    headings = {
        line.lstrip("# ").lower().replace(" ", "-") for line in page("validation").splitlines() if line[:1] == "#"
    }
    assert {cited[1] for rule in RULES.values() if (cited := CITATION.search(rule.source))} <= headings


def test_rules_stand_on_the_page_of_validation_in_the_section_that_they_cite():
    cited = {rule.id: found[1] for rule in RULES.values() if (found := CITATION.search(rule.source))}
    assert {name: rows().get(name, ("", ""))[0] for name in cited} == cited
    assert len(cited) > 60


def test_rules_have_on_the_page_of_validation_the_words_that_users_get():
    assert len(rows()) > 100
    assert {name: text for name, (_, text) in rows().items()} == {
        name: template_markdown(RULES[name].message) for name in rows()
    }


def test_warnings_are_marked_as_such_on_the_page_of_validation():
    marked = set(re.findall(r"^\| `([a-z-]+)` \(warning\)", VALIDATION, re.MULTILINE))
    assert marked == {name for name in rows() if RULES[name].severity.value == "warning"}
