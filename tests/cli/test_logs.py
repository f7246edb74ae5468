"""What a process logs."""

from __future__ import annotations

import subprocess
import sys


def test_stepwell_from_info_others_from_warning_one_line_each() -> None:
    code = """
import logging
from stepwell.cli._logs import start_logging
start_logging("proxy", supervised=True)
logging.getLogger("stepwell.proxy").info("listens on %d", 5)
logging.getLogger("stepwell.proxy").debug("too much")
logging.getLogger("someone.else").info("chatter")
logging.getLogger("someone.else").warning("trouble")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == ""
    started, info, warning = done.stderr.splitlines()
    assert started.endswith("process=proxy")
    assert "listens on 5" in info
    assert "[stepwell.proxy]" in info
    assert "trouble" in warning
    assert "\x1b" not in done.stderr
