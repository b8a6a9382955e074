"""`python -m dev.cluster cluster up`: the cluster command where the `jobset` script is not installed."""

import sys

from dev.cluster.cli import main

sys.exit(main())
