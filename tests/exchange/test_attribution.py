"""Whose call an exchange says it is."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import Claim, Exchange, Request, Response, claim_of
from stepwell.exchange._attribution import bounded_id
from stepwell.exchange._clean import kept_headers
from stepwell.sdk.records import Step, checked

UUID = "0f6d2c1e-1111-4222-8333-94a5b6c7d8e9"
CODEX = {"user-agent": "codex_exec/0.171.0 (Linux)"}


def exchange(
    headers: dict[str, str] | list[tuple[str, str]] | None = None,
    body: Any = None,
    trajectory: str | None = None,
) -> Exchange:
    """As capture records it: of the headers, those that are kept."""
    pairs = list(headers.items()) if isinstance(headers, dict) else headers or []
    raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    request = Request("POST", "https://llm/v1/responses", kept_headers(pairs), raw, 1)
    return Exchange("x", "d", request, Response(200, [], b"", "complete", 2), trajectory_id=trajectory)


def claim(headers: Any = None, body: Any = None, trajectory: str | None = None) -> Claim:
    return claim_of(exchange(headers, body, trajectory))


USER_ID = json.dumps({"device_id": "d", "account_uuid": "", "session_id": UUID})
SESSIONS: dict[str, tuple[dict[str, str], Any, str | None]] = {
    "claude code": ({"X-Claude-Code-Session-Id": "s"}, None, "claude-code:s"),
    "claude code by its body": ({}, {"metadata": {"user_id": USER_ID}}, f"claude-code:{UUID}"),
    "an older one": ({}, {"metadata": {"user_id": f"user_ab_account__session_{UUID}"}}, f"claude-code:{UUID}"),
    "codex": ({**CODEX, "session-id": "s", "thread-id": "t"}, {"prompt_cache_key": "k"}, "codex:s"),
    "codex, thread only": ({**CODEX, "thread-id": "t"}, None, "codex:t"),
    "an older codex": ({**CODEX, "session_id": "s", "conversation_id": "c"}, None, "codex:s"),
    "codex by its turn": ({"x-codex-turn-metadata": '{"session_id":"s","thread_id":"t"}'}, None, "codex:s"),
    "a damaged turn": ({"x-codex-turn-metadata": '{"session_id":', "thread-id": "t"}, None, "codex:t"),
    "codex by its key": (CODEX, {"prompt_cache_key": "k"}, "codex:k"),
    "codex on a socket": ({}, {"type": "response.create", "client_metadata": {"session_id": "s"}}, "codex:s"),
    "a wrapped frame": (CODEX, {"type": "response.create", "response": {"prompt_cache_key": "k"}}, "codex:k"),
    "opencode": ({"user-agent": "opencode/1.18", "x-session-id": "s", "session-id": "s"}, None, "opencode:s"),
    "its sub-agent": (
        {"user-agent": "opencode/1.18", "x-session-id": "sub", "x-parent-session-id": "main"},
        None,
        "opencode:main",
    ),
    "openai-agents": ({"user-agent": "Agents/Python 1.0"}, {"prompt_cache_key": "run-1"}, "prompt-cache:run-1"),
    "a key made for a run": ({}, {"prompt_cache_key": f"run:{UUID}"}, f"prompt-cache:run:{UUID}"),
    "a key for all there is": ({}, {"prompt_cache_key": "my-app-v1"}, None),
    "somebody's session": ({"x-session-id": "s"}, None, "session:s"),
    "no string": ({}, {"prompt_cache_key": 5, "metadata": {"user_id": {"session_id": "s"}}}, None),
    "a user of no session": ({}, {"metadata": {"user_id": "bob_session_x"}}, None),
    "text that mentions one": ({}, {"messages": [{"content": '{"session_id":"s"}'}]}, None),
    "nothing": ({"user-agent": "curl/8"}, {"messages": []}, None),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_the_clients_own_session(name: str) -> None:
    headers, body, expected = SESSIONS[name]
    found = claim(headers, body)
    assert found.trajectory_id == expected
    assert found.metadata.get("session") == expected


def test_credentials_then_header_then_session() -> None:
    session = {"x-claude-code-session-id": "s"}
    explicit = {**session, "x-stepwell-trajectory": "mine"}
    assert claim(session).trajectory_id == "claude-code:s"
    assert claim(explicit).trajectory_id == "mine"
    assert claim(explicit, trajectory="run").trajectory_id == "run"
    assert claim(explicit, trajectory="run").metadata["session"] == "claude-code:s", "what was seen is kept"


def test_what_is_said_explicitly() -> None:
    headers = {
        "X-Stepwell-Prompt": " task 7 ",
        "X-Stepwell-Group-Id": "g",
        "X-Stepwell-Split": "eval",
        "X-Stepwell-Policy-Version": "-12",
        "X-Stepwell-Meta-Env": "dev",
        "X-Stepwell-Meta-run_2": "b",
    }
    found = claim(headers)
    assert found == Claim(
        prompt_id="task 7", group_id="g", split="eval", policy_version=-12, metadata={"env": "dev", "run_2": "b"}
    )
    assert found.fields == {
        "prompt_id": "task 7",
        "group_id": "g",
        "split": "eval",
        "policy_version": -12,
        "metadata": {"env": "dev", "run_2": "b"},
    }


@pytest.mark.parametrize("version", ["", "x", "1.5", "9" * 19, "1e3", "٣", "1" * 100])
def test_a_value_that_cannot_be_used_is_kept_beside(version: str) -> None:
    found = claim({"x-stepwell-policy-version": version, "x-stepwell-split": "test"})
    assert (found.policy_version, found.split) == (None, None)
    assert found.metadata["x-stepwell-split"] == "test"
    assert found.metadata.get("x-stepwell-policy-version", "") == version


@pytest.mark.parametrize(
    ("headers", "retry"),
    [
        ({}, 0),
        ({"x-stainless-retry-count": "0"}, 0),
        ({"X-Stainless-Retry-Count": "2"}, 2),
        ({"x-stainless-retry-count": "-1"}, 0),
        ({"x-stainless-retry-count": "9" * 50}, 1000),
        ({"x-stainless-retry-count": "²"}, 0),
        ({"amz-sdk-request": "attempt=1"}, 0),
        ({"amz-sdk-request": "ttl=20260101T000000Z; attempt=3; max=5"}, 2),
    ],
)
def test_which_retry_it_is(headers: dict[str, str], retry: int) -> None:
    assert claim(headers).retry == retry


def test_a_sub_agent_says_who_it_is() -> None:
    headers = {
        "x-claude-code-session-id": "s",
        "x-claude-code-agent-id": "a1",
        "x-claude-code-agent-type": "general",
        "x-claude-code-request-class": "subagent",
    }
    found = claim(headers)
    assert found.trajectory_id == "claude-code:s"
    assert found.metadata == {
        "session": "claude-code:s",
        "agent_id": "a1",
        "agent_type": "general",
        "request_class": "subagent",
    }


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)])
def test_a_packed_body_is_read(coding: str, pack: Any) -> None:
    raw = pack(json.dumps({"prompt_cache_key": "k"}).encode())
    assert claim({**CODEX, "content-encoding": coding}, raw).trajectory_id == "codex:k"
    assert claim({**CODEX, "content-encoding": coding}, raw[:9]).trajectory_id is None


def test_of_several_headers_the_first_counts() -> None:
    assert claim([("x-stepwell-trajectory", "one"), ("x-stepwell-trajectory", "two")]).trajectory_id == "one"


def test_long_ids_are_bounded_and_stay_apart() -> None:
    one, other = bounded_id("a" * 5000 + "b"), bounded_id("a" * 5000 + "c")
    assert len(one) == len(other) == 256
    assert one != other
    assert bounded_id("a" * 256) == "a" * 256
    assert bounded_id("a\nb\x7f") == "a\ufffdb\ufffd"


texts = st.text(max_size=300)
names = st.sampled_from(
    [
        *("x-stepwell-trajectory", "x-stepwell-prompt", "x-stepwell-group", "x-stepwell-split"),
        *("x-stepwell-policy-version", "x-stepwell-meta-k", "x-claude-code-session-id", "x-session-id", "session-id"),
        *("x-codex-turn-metadata", "x-stainless-retry-count", "amz-sdk-request", "user-agent", "content-encoding"),
    ]
)
bodies = st.binary(max_size=60) | st.dictionaries(
    st.sampled_from(["metadata", "prompt_cache_key", "client_metadata", "type", "response"]),
    texts | st.none() | st.integers() | st.dictionaries(st.sampled_from(["user_id", "session_id"]), texts),
).map(lambda value: json.dumps(value).encode())


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(names, texts), max_size=6), bodies, st.none() | st.just("run"))
def test_any_exchange_has_a_claim_that_a_step_can_take(
    headers: list[tuple[str, str]], body: bytes, trajectory: str | None
) -> None:
    request = Request("POST", "https://llm/v1/x", headers, body, 1)
    made = Exchange("x", "d", request, Response(200, [], b"", "complete", 2), trajectory_id=trajectory)
    found = claim_of(made)
    assert found == claim_of(made)
    fields = {name: value for name, value in found.fields.items() if name != "metadata"}
    checked(Step, {"messages": [], "response": "a", **fields})
    if trajectory is not None:
        assert found.trajectory_id == trajectory
