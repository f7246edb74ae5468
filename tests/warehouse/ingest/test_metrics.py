"""Ingest tells Prometheus, where that is wished."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import SettingsError
from stepwell.spool import CONTENT_TYPE, Figure
from stepwell.warehouse import IngestConfig, run_ingest
from stepwell.warehouse._ingest.metrics import served


def get(port: int, path: str = "/metrics") -> tuple[str, str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.headers["content-type"], answer.read().decode()


def test_each_request_is_answered_anew() -> None:
    values = iter(range(10))
    with served("127.0.0.1", 0, lambda: [Figure("x", "X.").add(next(values))]) as port:
        assert get(port) == (CONTENT_TYPE, "# HELP x X.\n# TYPE x gauge\nx 0.0\n")
        assert get(port, "/metrics?name=x")[1].endswith("x 1.0\n")
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            get(port, "/other")
        refused.value.close()
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.1", port), 1):
        pass


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"port {port}.*ingest.metrics_port"), served("127.0.0.1", port, list):
            pass


def test_while_ingest_runs(feed: Any, local: Any, tmp_path: Path) -> None:
    stop, told = threading.Event(), list[dict[str, Any]]()
    feed.step(step_id="a")

    def ready(about: dict[str, Any]) -> None:
        told.append(about)
        text = get(about["metrics_port"])[1]
        assert f'stepwell_spool_lag_records{{producer="{feed.producer}"}} 1.0' in text
        assert "stepwell_ingest_commit_lag_seconds" in text and "stepwell_ingest_committer" in text
        stop.set()

    config = IngestConfig(interval=0.01, idle=0.01, metrics_port=0)
    run_ingest(config, data=tmp_path, warehouse=local.uri, storage_options={}, ready=ready, stop=stop)
    assert told[0]["metrics_port"] > 0
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.1", told[0]["metrics_port"]), 1):
        pass
