"""`python -m cli` is `jobset`."""

import sys

from cli.main import main

sys.exit(main())
