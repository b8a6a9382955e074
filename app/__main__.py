"""`python -m app` is `jobset`."""

import sys

from app.cli import main

sys.exit(main())
