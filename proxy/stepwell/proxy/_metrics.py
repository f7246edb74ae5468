"""What Prometheus is told by the proxy: `/metrics`, asked of the proxy as of a server.

All that runs on the data folder is told by the gateway, too; this is there where no gateway runs, and says what the proxy has in memory.
"""

from __future__ import annotations

from pathlib import Path

from stepwell.proxy._flows import Flows
from stepwell.spool import Figure, SpoolWriter, exposition, spool_figures

PATH = "/metrics"


class Metrics:
    """Figures of this process and of its spool."""

    def __init__(self, writer: SpoolWriter, folder: Path, flows: Flows) -> None:
        self._writer, self._folder, self._flows = writer, folder, flows

    def text(self) -> bytes:
        """The exposition format, version 0.0.4. Blocks for the disk.

        Raises:
            SpoolError: the spool cannot be read.
        """
        flying = Figure("stepwell_proxy_in_flight", "Calls that are under way.")
        pending = Figure("stepwell_proxy_pending_bytes", "Bytes that wait in memory for the disk.")
        lost = Figure(
            "stepwell_proxy_lost_total", "Calls that went through unrecorded since the proxy started.", "counter"
        )
        own = [flying.add(len(self._flows)), pending.add(self._writer.pending), lost.add(self._writer.lost)]
        return exposition([*own, *spool_figures(self._folder, only=self._writer.spool.path)])
