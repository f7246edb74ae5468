"""Talking to the proxy about trajectories."""

from __future__ import annotations

import http.client
import socket
import threading
from dataclasses import replace
from typing import Any

import pytest

from stepwell.cli import _control
from stepwell.cli._control import Control
from stepwell.errors import DeliveryError, SettingsError


@pytest.fixture
def control(fake_proxy: Any) -> Control:
    return Control("127.0.0.1", fake_proxy.port, "stepwell.invalid", "späte Rollout/1", "token-of-this-test")


def test_what_it_answers_comes_back(fake_proxy: Any, control: Control) -> None:
    fake_proxy.answers = {"trajectories": {"upstream_proxy": None}, "end": {"calls": 3}}
    assert control.open({"trajectory_id": "späte Rollout/1", "state": "open"}) == {"upstream_proxy": None}
    assert control.end({"trajectory_id": "späte Rollout/1", "state": "completed"}) == {"calls": 3}


def test_begin_and_end_are_proxy_requests_with_credentials(fake_proxy: Any, control: Control) -> None:
    control.open({"trajectory_id": "späte Rollout/1", "state": "open"})
    control.end({"trajectory_id": "späte Rollout/1", "state": "completed"})
    assert [path for path, _ in fake_proxy.asked] == [
        "http://stepwell.invalid/trajectories",
        "http://stepwell.invalid/trajectories/end",
    ]
    assert fake_proxy.users == ["späte Rollout/1"] * 2


def test_nobody_listening_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_control, "_OPEN_SECONDS", 0.3)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        nobody = Control("127.0.0.1", held.getsockname()[1], "stepwell.invalid", "t", "k")
        with pytest.raises(SettingsError, match="start it with `stepwell up`"):
            nobody.open({})


def test_a_proxy_that_comes_back_is_told_of_the_beginning_once(fake_proxy: Any, control: Control) -> None:
    fake_proxy.hang_up = 2
    control.open({"trajectory_id": "t", "state": "open"})
    assert len(fake_proxy.asked) == 1
    assert fake_proxy.keys[0]


def test_a_proxy_that_listens_again_is_told_of_the_beginning(
    fake_proxy: Any, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens at the first attempt; somebody does at the second."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        away = held.getsockname()[1]
        ports = [away, fake_proxy.port]
        connection = http.client.HTTPConnection
        monkeypatch.setattr(
            http.client, "HTTPConnection", lambda host, _, **more: connection(host, ports.pop(0), **more)
        )
        control.open({"trajectory_id": "t", "state": "open"})
    assert ports == []
    assert len(fake_proxy.asked) == 1


def test_another_server_there_is_said() -> None:
    def answer() -> None:
        peer, _ = server.accept()
        with peer:
            peer.recv(65536)
            peer.sendall(b"220 mail.example ESMTP\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(SettingsError, match="does not answer as a Stepwell proxy"):
            Control("127.0.0.1", server.getsockname()[1], "stepwell.invalid", "t", "k").open({})
        thread.join()


def test_a_foreign_token_is_said(fake_proxy: Any, control: Control) -> None:
    with pytest.raises(SettingsError, match="does not take this installation's token"):
        replace(control, token="another").open({})


def test_a_refusal_carries_the_proxys_words(fake_proxy: Any, control: Control) -> None:
    fake_proxy.refuse = (422, {"field": "metadata", "detail": "is too long"})
    with pytest.raises(DeliveryError, match="422: metadata: is too long"):
        control.open({})


def test_the_end_is_repeated_under_one_key_until_it_is_heard(fake_proxy: Any, control: Control) -> None:
    fake_proxy.hang_up = 2
    control.end({"trajectory_id": "t", "state": "failed"})
    assert len(fake_proxy.asked) == 1
    assert fake_proxy.keys[0]


def test_a_proxy_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_control, "_RETRY_SECONDS", 0.3)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(DeliveryError, match="is gone"):
            Control("127.0.0.1", held.getsockname()[1], "stepwell.invalid", "t", "k").end({})
