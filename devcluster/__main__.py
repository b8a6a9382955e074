"""`python -m devcluster cluster up`: the cluster command where the `jobset` script is not installed."""

import sys

from devcluster.cli import main

sys.exit(main())
