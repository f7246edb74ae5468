"""Agents that are given a base URL instead of a proxy."""

from __future__ import annotations

from openai import OpenAI

from stepwell.testing import Reply

from .conftest import API_KEY, DEADLINE, Site, assert_same, say, texts


def _client(site: Site, trajectory: str) -> OpenAI:
    base = f"http://127.0.0.1:{site.world.ports['port']}/t/{trajectory}/openai/v1"
    return OpenAI(api_key=API_KEY, base_url=base, max_retries=0, timeout=DEADLINE)


def test_a_call_is_captured_as_one_through_the_proxy(site: Site) -> None:
    site.script(Reply(content="by its address"))
    with _client(site, site.name) as client:
        client.chat.completions.create(model="m", messages=say("hi"))
    (row,), (call,) = site.rows(1), site.calls
    assert_same(row, call)
    assert "stepwell" not in str(call.headers)


def test_a_stream_and_its_next_turn_are_one_trajectory(site: Site) -> None:
    site.script(lambda asked: Reply(content=f"turn {len(asked.messages)}"))
    with _client(site, site.name) as client:
        messages = say("hi")
        for _ in range(2):
            stream = client.chat.completions.create(model="m", messages=messages, stream=True)
            said = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
            messages += [{"role": "assistant", "content": said}, *say("go on")]
    first, second = site.rows(2)
    assert [texts(row["response"]) for row in (first, second)] == ["turn 1", "turn 3"]
    assert second["parent_id"] == first["step_id"]
    for row, call in zip((first, second), site.calls, strict=True):
        assert_same(row, call)
