"""Flags of the manager that cannot be meant: one line says what is wrong, and nothing starts."""

import pytest

from app.settings import SettingsError
from app.settings_file import parse
from cli.main import main


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--feature-gate=RestartJob=true"], "unknown: --feature-gate=RestartJob=true; did you mean --feature-gates?"),
        (["--zzz"], "unknown: --zzz; `jobset manager --help`"),
        (["-o", "yaml"], "flag --output: it is the form of --check-config, which is not given"),
        (
            ["--check-config=a.yaml", "--config=b.yaml"],
            "only a.yaml would be checked, and b.yaml not be read; leave out",
        ),
        (["--controllers=false", "--webhooks=false"], "both are false, so there is nothing to run"),
    ],
)
def test_what_cannot_be_meant_ends_the_start(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]):
    try:
        code = main(["manager", *flags])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert said in capsys.readouterr().err


def test_help_has_the_flags_and_examples(command):
    code, out, _ = command("manager", "--help")
    assert (code, "--feature-gates" in out, "examples:" in out) == (0, True, True)


def test_a_config_map_is_no_configuration_and_its_keys_are_named():
    text = "apiVersion: v1\nkind: ConfigMap\ndata: {controller_manager_config.yaml: x}\n"
    with pytest.raises(SettingsError) as refused:
        parse(text)
    assert str(refused.value).startswith(
        "this is a ConfigMap: give what it holds, not itself (its keys: controller_manager_config.yaml), such as by kubectl"
    )
    assert "jsonpath='{.data.controller_manager_config\\.yaml}'" in str(refused.value)
    with pytest.raises(SettingsError, match="its keys: none"):
        parse("kind: ConfigMap\ndata: text\n")
