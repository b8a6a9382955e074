"""Makes `python -m cli` the same as `jobset`."""

import sys

from cli.main import main

sys.exit(main())
