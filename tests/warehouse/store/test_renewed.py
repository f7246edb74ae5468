"""Keys that run out are renewed, for boto3 and for Lance: a session of weeks goes on."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from tests.stores._moto import OneWriterPerKey
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler, make_server

from stepwell.errors import StoreError
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._store.credentials import seen_by_lance
from stepwell.warehouse._tables import renewed as renewed_module
from stepwell.warehouse._tables.renewed import Renewed

_PROCESS = """\
#!/bin/sh
echo '{{"Version": 1, "AccessKeyId": "KEY{number}", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": "{until}"}}'
"""


class Expiring:
    """A store that takes the keys of one number only; it notes who came with which."""

    def __init__(self, folder: Path) -> None:
        self._app = OneWriterPerKey(DomainDispatcherApplication(create_backend_app))
        self._process = folder / "keys.sh"
        self.good = {0, 1}
        self.seen: dict[str, set[str]] = {"boto3": set(), "lance": set()}
        self.refused: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        key = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
        who = "boto3" if "Boto3" in environ.get("HTTP_USER_AGENT", "") else "lance"
        self.seen[who].add(key)
        if key not in {f"KEY{number}" for number in self.good}:
            self.refused.append(f"{who} {key}")
            start_response("403 Forbidden", [("content-type", "application/xml")])
            return [b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"]
        return self._app(environ, start_response)

    def next_keys(self) -> None:
        """From now on other keys are given out; a while later the store takes no others."""
        number = max(self.good)
        give_out(self._process, number)
        time.sleep(2.5 * renewed_module.ASKED_AGAIN)
        self.good = {number, number + 1}
        for keys in self.seen.values():
            keys.clear()


def give_out(process: Path, number: int) -> None:
    """Keys of this number, good for five minutes: boto3 asks for others at once."""
    until = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    process.write_text(_PROCESS.format(number=number, until=until))
    process.chmod(0o755)


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        pass


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[Expiring, str]]:
    """The store and its address."""
    app = Expiring(tmp_path)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    assert isinstance(server, ThreadedWSGIServer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield app, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with a profile whose keys come from a process and run out."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    give_out(tmp_path / "keys.sh", 0)
    (tmp_path / "config").write_text(
        f"[profile role]\ncredential_process = {tmp_path / 'keys.sh'}\nregion = us-east-1\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(renewed_module, "ASKED_AGAIN", 0.4)


@pytest.fixture
def place(store: tuple[Expiring, str]) -> tuple[str, dict[str, str]]:
    """An empty place in it, and the options of whoever comes with the profile."""
    bucket = f"b{uuid.uuid4().hex}"
    boto3.Session(profile_name="role").client("s3", endpoint_url=store[1]).create_bucket(Bucket=bucket)
    options = {"aws_endpoint": store[1], "allow_http": "true", "aws_region": "us-east-1", "aws_profile": "role"}
    return f"s3://{bucket}/place", options


def test_everything_goes_on(
    store: tuple[Expiring, str], place: tuple[str, dict[str, str]], feed: Any, spools: Path, drained: Any
) -> None:
    app, (uri, options) = store[0], place
    warehouse = Warehouse.open(uri, storage_options=options)
    worker = Ingest(warehouse, spools)
    feed.step(step_id="s0")
    drained(worker)
    held = warehouse.tables["events"].dataset
    for number in (1, 2):
        app.next_keys()
        assert held.count_rows() == 1, "also what nobody has looked at for long"
        feed.step(step_id=f"s{number}")
        drained(worker)
        found = warehouse.query("SELECT step_id FROM steps ORDER BY sequence")["step_id"].to_pylist()
        assert found == [f"s{n}" for n in range(number + 1)]
        warehouse.maintain()
        assert app.seen == {"boto3": {f"KEY{number}"}, "lance": {f"KEY{number}"}}
    assert app.refused == []


def test_only_what_runs_out_is_asked_for_again(tmp_path: Path) -> None:
    options = seen_by_lance({"aws_profile": "role", "aws_region": "x", "aws_endpoint": "http://127.0.0.1:1"})
    assert isinstance(options, Renewed)
    first = options.now()
    give_out(tmp_path / "keys.sh", 7)
    second = options.now()
    assert (first["aws_access_key_id"], second["aws_access_key_id"]) == ("KEY0", "KEY7")
    assert {**first, "aws_access_key_id": "KEY7"} == second
    assert "aws_profile" not in options and options["aws_region"] == "x"
    with (tmp_path / "config").open("a") as config:
        config.write("[profile fixed]\naws_access_key_id = FIXED\naws_secret_access_key = s\n")
    fixed = seen_by_lance({"aws_profile": "fixed", "aws_region": "x", "aws_endpoint": "http://127.0.0.1:1"})
    assert not isinstance(fixed, Renewed) and fixed["aws_access_key_id"] == "FIXED"


def test_who_has_to_sign_in_again_is_told(
    store: tuple[Expiring, str], place: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    """The process that gives keys gives none any more."""
    uri, options = place
    warehouse = Warehouse.open(uri, storage_options=options)
    (tmp_path / "keys.sh").write_text("#!/bin/sh\necho sign in first >&2\nexit 1\n")
    with pytest.raises(StoreError, match="sign in first"):
        warehouse.refresh()
    store[0].next_keys()
    warehouse.refresh()
