"""`python -m stepwell.cli`: the same as `stepwell`, with the interpreter named."""

from __future__ import annotations

import sys

from stepwell.cli import main

if __name__ == "__main__":
    sys.exit(main())
