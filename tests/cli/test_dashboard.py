"""`stepwell dashboard`: an address for whoever has the token, and nothing where no gateway answers."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli import _hand_over, main
from stepwell.cli._dashboard import address_of
from stepwell.cli._hand_over import hand_over
from stepwell.errors import SettingsError

ADDRESS = "http://127.0.0.1:8787/#token=secret"


class _Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"status": "ok"} if self.path == "/api/v1/health" else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    """Of what answers as a gateway does."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Health) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def visit(address: str) -> http.client.HTTPResponse:
    place = address.removeprefix("http://").partition("/")
    with closing(http.client.HTTPConnection(place[0], timeout=10)) as connection:
        connection.request("GET", f"/{place[2]}")
        answer = connection.getresponse()
        answer.read()
        return answer


def test_it_prints_the_address_with_the_token(stepwell: Callable[..., Any], port: int, place: Path) -> None:
    done = stepwell("dashboard", "--port", str(port))
    token = (place.parent / "home" / "token").read_text().strip()
    assert (done.returncode, done.stdout) == (0, f"http://127.0.0.1:{port}/#token={token}\n"), done.stderr


def test_no_gateway_no_address(stepwell: Callable[..., Any], port: int, place: Path) -> None:
    done = stepwell("dashboard", "--port", "9")
    assert done.returncode == 2 and done.stdout == ""
    assert (
        done.stderr == "stepwell: no gateway answers on 127.0.0.1:9; start it with `stepwell up`, or name its --port\n"
    )
    (place.parent / "home" / "token").unlink()
    done = stepwell("dashboard", "--port", str(port))
    assert done.returncode == 2 and "there is no token" in done.stderr


def test_an_address_of_ipv6() -> None:
    assert address_of(8787, "t", "::1") == "http://[::1]:8787/#token=t"


def test_the_browser_gets_an_address_that_is_good_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    answers: list[tuple[int, str | None]] = []

    def browser(address: str) -> bool:
        opened.append(address)
        assert "secret" not in address

        def come() -> None:
            for path in (address + "x", address.rpartition("/")[0] + "/favicon.ico", address):
                answer = visit(path)
                answers.append((answer.status, answer.getheader("location")))

        thread.append(threading.Thread(target=come))
        thread[0].start()
        return True

    thread: list[threading.Thread] = []
    monkeypatch.setattr("webbrowser.open", browser)
    hand_over(ADDRESS)
    thread[0].join()
    assert answers == [(404, None), (404, None), (302, ADDRESS)]
    with pytest.raises(OSError):
        visit(opened[0])


def test_a_browser_that_is_not_there_or_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webbrowser.open", lambda _address: False)
    with pytest.raises(SettingsError, match="no browser to open here"):
        hand_over(ADDRESS)
    monkeypatch.setattr("webbrowser.open", lambda _address: True)
    with pytest.raises(SettingsError, match="did not come"):
        hand_over(ADDRESS, patience=0.05)


def test_with_open_nothing_is_printed(monkeypatch: pytest.MonkeyPatch, port: int, capsys: Any) -> None:
    handed: list[str] = []
    monkeypatch.setattr(_hand_over, "hand_over", handed.append)
    assert main(["dashboard", "--port", str(port), "--open"]) == 0
    assert [address.partition("#")[0] for address in handed] == [f"http://127.0.0.1:{port}/"]
    assert capsys.readouterr().out == ""


def test_the_stack_tells_the_token_to_a_terminal_only(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    from stepwell.cli._dashboard import shown_address

    token = (place.parent / "home" / "token").read_text().strip()
    for terminal, wanted in (
        (True, f"http://127.0.0.1:8787/#token={token}"),
        (False, "http://127.0.0.1:8787/  (`stepwell dashboard --port 8787` signs in)"),
    ):
        monkeypatch.setattr("sys.stdout.isatty", lambda terminal=terminal: terminal)
        assert shown_address(8787) == wanted
