"""The validation of CustomResourceDefinitions of each minor version of Kubernetes, which `main.go` calls.

go.mod pins the modules of the oldest version that takes our CRDs, and each other .mod file those of the version it is
named after. The newest needs none: each test on an API server creates the CRDs there.
"""

from pathlib import Path

from tests.support.programs import Program

_FOLDER = Path(__file__).parent
OLDEST = "1.30"
VALIDATORS = {
    OLDEST: Program("crdvalidator", _FOLDER, "crdvalidator"),
    **{
        file.stem: Program("crdvalidator", _FOLDER, "crdvalidator", modfile=file.name)
        for file in sorted(_FOLDER.glob("1.*.mod"))
    },
}
"""By version, the oldest first."""
