"""How each command of the pages is tried. What no table here has is run in the scene of its page (`page_scenes.py`)."""

import re

from tests.support.pages.files import Command

BENCH = "tests/dev/bench/test_bench.py::def test_a_whole_run"
CHAOS = "tests/dev/chaos/test_run.py::def test_nothing_is_lost_or_done_twice_while_replicas_die_sleep_and_are_abused"
DEMO = "tests/e2e/test_page_demo.py::def test_the_commands_of_the_demo_and_what_is_tried_after_it"
MANY = "tests/dev/bench/test_many.py::def test_a_whole_run"
SATURATION = "tests/dev/bench/test_saturation.py::def test_a_row_for_each_webhook_size_and_number_of_connections"
TAKEOVER = "tests/integration/test_takeover.py::def test_the_chart_takes_over_from_an_earlier_version"

RUN_BY = {
    r"make env": ".github/workflows/release.yml::make env\n",
    r"make test": "Makefile::\t@$(MAKE) --no-print-directory test\n",
    r"make test-unit": ".github/workflows/release.yml::check-generated test-unit\n",
    r"make demo( STORY=\S+)?": DEMO,
    r"kubectl delete deployment .* --cascade=orphan|kubectl patch service .*": TAKEOVER,
    r"jobset cluster down .*": DEMO,
    r"jobset render -o tree .*": "tests/app/test_examples.py"
    "::def test_the_picture_on_the_page_about_gangs_is_what_render_draws",
    r"jobset validate .* examples .*": "tests/app/test_examples.py"
    "::def test_the_command_of_the_page_finds_the_intended_mistakes_and_nothing_else",
}
"""Commands that something else runs: its file, and words of it. The target `ci` of the Makefile is what .ci/run runs."""

NOT_RUN = {
    r"make bench( .*)?": ("takes up to half an hour", BENCH),
    r"make bench-admission( .*)?": ("takes a minute", SATURATION),
    r"make bench-many( .*)?": ("takes ten minutes", MANY),
    r"make (chaos|soak)( .*)?": ("takes 2 to 60 minutes", CHAOS),
    r"make image IMAGE=.*": ("needs an image builder", "tests/manifests/test_image_root.py::def test_"),
    r"docker push .*": ("needs a registry", ""),
    r"make install IMAGE=.*": ("needs a registry", "tests/manifests/test_install_script.py::def test_an_image_of"),
    r"kind .*": ("needs Docker", ""),
    r"docker buildx .*|cosign .*|(IMAGE|SIGNER)=.*": ("needs an image of a release", ""),
    r"helm install jobset oci://.*": (
        "asks a registry",
        "tests/integration/test_page_installs.py::with_helm_is_installed",
    ),
    r"(make wheel && )?uv tool install .*": ("asks a package index", "tests/app/test_wheel.py::def installed"),
    r"(make client && )?pip install .*": ("asks a package index", "tests/clients/test_wheel.py::def wheel"),
    r"cmctl renew .*": ("needs cmctl", "tests/e2e/test_cert_manager.py::def test_"),
    r"kubectl get jobsets -A -o yaml > jobsets.yaml|kubectl apply -f jobsets.yaml": (
        "needs a cluster that is lost",
        "",
    ),
    r"kubectl port-forward .*": ("needs a kubelet that forwards", ""),
}
"""Commands that nothing runs: why, and a test of the same in short or in another way ("" for none)."""

HELM = r"helm (?!install jobset oci:).*"
INSTALLS = (
    r"mkdir jobset .*|kubectl apply --server-side (-k|-f manifests/references/).*"
    r"|kubectl label namespace jobset-system .*|kubectl rollout .*|sleep 30|until .*|kubectl delete -k .*"
)
"""Commands of installation, for `tests/integration/test_page_installs.py`."""


def elsewhere(command: Command) -> list[str]:
    """The patterns that are about a command; none of one that is run in the scene of its page."""
    return [each for each in (*RUN_BY, *NOT_RUN, HELM, INSTALLS) if re.fullmatch(each, command.text, re.DOTALL)]
