"""The gateway as a process of its own, on a real socket, to be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_RUN = """
import json, sys
from pathlib import Path
from stepwell.gateway import GatewayConfig, run_gateway
data, token, port = sys.argv[1:]
run_gateway(
    GatewayConfig(port=int(port)), data=Path(data), home=Path(data), token=token, warehouse=data + "/warehouse",
    storage_options=None, ready=lambda said: print(json.dumps(said), flush=True),
)
print("put away", flush=True)
"""


def started(data: Path, token: str, port: int = 0) -> tuple[subprocess.Popen[str], int]:
    """The process and its port, when it answers."""
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, str(data), token, str(port)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(json.loads(process.stdout.readline())["port"])


_FORKS = """
import json, os, signal, sys
from pathlib import Path
import stepwell.gateway._app
from stepwell.gateway import GatewayConfig, run_gateway
data, token = sys.argv[1:]
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    if os.fork() == 0:
        run_gateway(
            GatewayConfig(port=int(line)), data=Path(data), home=Path(data), token=token, warehouse=data + "/warehouse",
            storage_options=None, ready=lambda said: print(json.dumps({**said, "pid": os.getpid()}), flush=True),
        )
        os._exit(0)
"""


class Gateways:
    """One gateway after the other, on one port. They are forked off a process that has imported everything, so that one is up at once."""

    def __init__(self, data: Path, token: str) -> None:
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORKS, str(data), token]
        self._parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._pid: int | None = None
        self.port = 0
        self.start()

    def start(self) -> None:
        """Return when the next one answers."""
        assert self._parent.stdin is not None and self._parent.stdout is not None
        self._parent.stdin.write(f"{self.port}\n")
        self._parent.stdin.flush()
        said = json.loads(self._parent.stdout.readline())
        self.port, self._pid = said["port"], said["pid"]

    def kill(self) -> None:
        """With signal 9; return when it is gone."""
        with suppress(ProcessLookupError):
            while self._pid is not None:
                os.kill(self._pid, signal.SIGKILL)
                time.sleep(0.005)
        self._pid = None

    def close(self) -> None:
        """Kill the last one, and the process that they came from."""
        self.kill()
        self._parent.kill()
        self._parent.communicate()
