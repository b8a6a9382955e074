"""`python -m jobset_controller` is `jobset`."""

import sys

from jobset_controller import main

if __name__ == "__main__":
    sys.exit(main())
