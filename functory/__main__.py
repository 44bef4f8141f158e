"""`python -m functory` is the `functory` command."""

import sys

from functory.cli import main

sys.exit(main())
