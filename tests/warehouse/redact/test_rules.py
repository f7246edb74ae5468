"""`[redact]`: one text after the rules, and that nothing a rule matches reaches a table."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stepwell.errors import SettingsError
from stepwell.exchange import Request, Response, request_entry, response_entry
from stepwell.sdk.records import Step
from stepwell.spool import Record
from stepwell.warehouse import Ingest, IngestConfig, RedactConfig, Warehouse, run_ingest
from stepwell.warehouse._parse.records import Parsed, parse_record
from stepwell.warehouse._redact.rules import Names, RedactionFailed, Redactor

SECRET = "sk-abcdefghij0123456789"
KEYS = RedactConfig.model_validate({"rules": [{"name": "keys", "pattern": r"sk-[a-z0-9]{8,}", "replace": "[key]"}]})
TABLES = ("steps", "events", "exchanges")


def rules(*patterns: str, **more: Any) -> Redactor:
    return Redactor(RedactConfig.model_validate({"rules": [{"pattern": pattern} for pattern in patterns], **more}))


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> str:
    """A module of the user's with a function `f`; its name."""
    name = f"rules_{folder.name}".replace("-", "_")
    (folder / f"{name}.py").write_text(f"def f(text):\n    {body}\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return f"{name}:f"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rules": [{"pattern": "(a"}]}, "is no regular expression"),
        ({"rules": [{"pattern": "a*"}]}, "matches the empty text"),
        ({"rules": [{"pattern": "red"}]}, "rule 1 matches its own replacement"),
        (
            {"rules": [{"pattern": "a+", "replace": "b", "name": "one"}, {"pattern": "c", "replace": "a"}]},
            "one matches",
        ),
        ({"rules": [{"pattern": "a", "regex": "b"}]}, "Extra inputs"),
        ({"callables": ["no_colon"]}, "package.module:function"),
    ],
)
def test_rules_that_cannot_work_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        RedactConfig.model_validate(wrong)


def test_a_callable_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"redact.callables: absent_package:f cannot be imported"):
        rules(callables=["absent_package:f"])
    with pytest.raises(SettingsError, match="is no function"):
        rules(callables=["sys:maxsize"])


def test_ingest_does_not_start_with_a_rule_that_cannot_work(local: Any, tmp_path: Path) -> None:
    config = RedactConfig(callables=("absent_package:f",))
    options: dict[str, Any] = {"warehouse": local.uri, "storage_options": {}, "ready": lambda _: None}
    with pytest.raises(SettingsError, match="absent_package:f cannot be imported"):
        run_ingest(IngestConfig(), data=tmp_path, redact=config, **options)


def test_the_replacement_is_put_in_as_it_stands() -> None:
    redactor = Redactor(RedactConfig.model_validate({"rules": [{"pattern": r"(\d)x", "replace": r"\1&"}]}))
    assert redactor.text("a1xb", {}) == r"a\1&b"


def test_matches_that_replacing_makes_are_replaced() -> None:
    redactor = Redactor(RedactConfig.model_validate({"rules": [{"pattern": "ab", "replace": ""}]}))
    assert redactor.text("aabbc", {}) == "c"
    growing = Redactor(RedactConfig.model_validate({"rules": [{"pattern": "ab", "replace": "bba"}]}))
    with pytest.raises(RedactionFailed, match="do not come to an end"):
        growing.text("a" * 20 + "b", {})


def test_json_text_is_looked_at_behind_its_escapes() -> None:
    found: Names = {}
    text = r'{"cmd":"curl -H \"x: \u0073k-abcdefghij\"","n":[1,"{\"in\":\"\\u0073k-abcdefghij\"}"]}'
    new = orjson.loads(Redactor(KEYS).text(text, found))
    assert new == {"cmd": 'curl -H "x: [key]"', "n": [1, '{"in":"[key]"}']}
    assert list(found) == ["keys"]
    assert rules('a"b').text(r'{"q":"a\"b"}', {}) == '{"q":"[redacted]"}'
    untouched = r'{ "a" : "\u0041" }'
    assert Redactor(KEYS).text(untouched, {}) == untouched


def test_half_a_surrogate_pair_behind_an_escape_stays_escaped() -> None:
    found: Names = {}
    assert Redactor(KEYS).text(rf'{{"a": "\u0073{SECRET[1:]} \ud83d"}}', found) == r'{"a":"[key] \ud83d"}'
    assert list(found) == ["keys"]


def test_fields_whose_names_become_the_same_stay_apart() -> None:
    assert rules(r"\w+@\w+").values({"a@b": 1, "c@d": 2}, {}) == {"[redacted]": 1, "[redacted] (2)": 2}


def test_a_callable_works_before_the_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module(tmp_path, monkeypatch, "return text.replace('Ada', 'sk-abcdefghij')")
    redactor = Redactor(KEYS.model_copy(update={"callables": (name,)}))
    found: Names = {}
    assert redactor.text("Ada said", found) == "[key] said"
    assert list(found) == [name, "keys"]


@given(st.lists(st.sampled_from(["a", "b", "s", "k", "-", "é", '"', "\\", "\n", "0", " "]), max_size=30).map("".join))
@settings(max_examples=150, deadline=None)
def test_nothing_that_matches_is_left(text: str) -> None:
    redactor = rules("ab+", 'k-|"b', r"s\s")
    once = redactor.text(text, {})
    found: Names = {}
    assert redactor.text(once, found) == once
    assert not found


def parsed(body: bytes, redactor: Redactor, kind: str = "step") -> Parsed:
    into = Parsed()
    parse_record(Record(1, "r", kind, None, 0, b"", body), "p", lambda _: None, into, redactor)
    return into


def quarantined(warehouse: Warehouse) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = warehouse.tables["exchanges"].dataset.to_table(filter="ledger IS NULL").to_pylist()
    return rows


def submitted(**fields: Any) -> bytes:
    values = {"messages": [{"role": "user", "content": "q"}], "response": "a", **fields}
    return Step.model_validate(values).model_dump_json(exclude_none=True).encode()


WORDS = st.sampled_from(["x", SECRET, f"is {SECRET}!", 'quote " and \\', f'{{"k": "{SECRET}"}}'])
VALUES = st.recursive(
    WORDS | st.integers(0, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=5,
)
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=2)


@given(
    user=WORDS,
    answer=WORDS,
    arguments=OBJECTS.map(lambda value: orjson.dumps(value).decode()) | WORDS,
    result=WORDS,
    about=WORDS,
    metadata=OBJECTS,
    extra=OBJECTS,
)
@settings(max_examples=60, deadline=None)
def test_no_draft_holds_what_a_rule_matches(
    user: str, answer: str, arguments: str, result: str, about: str, metadata: dict[str, Any], extra: dict[str, Any]
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    body = submitted(
        messages=[
            {"role": "user", "content": [{"type": "text", "text": user}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": result},
        ],
        response=answer,
        tools=[{"type": "function", "function": {"name": "f", "description": about}}],
        metadata=metadata,
        extra=extra,
        prompt_ids=[1, 2],
        response_ids=[3],
        logprobs=[-0.5],
    )
    (made,) = parsed(body, Redactor(KEYS)).drafts
    step = made.step
    written = b"".join([*made.messages, made.response, made.tools, orjson.dumps([step.metadata, step.extra])])
    assert b"sk-" not in written
    content = any("sk-" in text for text in (user, answer, arguments, result, about, orjson.dumps(extra).decode()))
    assert (made.tokens is None and made.logprobs is None) == content
    secret = content or b"sk-" in orjson.dumps(metadata)
    assert step.trainable is not secret
    assert step.untrainable_reason == ("redacted by keys" if secret else None)


def test_what_spells_the_text_token_by_token_goes_too() -> None:
    extra = {"logprobs": {"content": [{"token": "sk"}]}, "token_ids": [1], "kept": {"top_logprobs": [1], "x": 1}}
    (made,) = parsed(submitted(response=SECRET, extra=extra), Redactor(KEYS)).drafts
    assert made.step.extra == {"kept": {"x": 1}}
    (made,) = parsed(submitted(extra=extra), Redactor(KEYS)).drafts
    assert made.step.extra == extra


def test_the_form_of_a_message_is_not_content() -> None:
    (made,) = parsed(submitted(), rules("text|role|user|assistant|type|content")).drafts
    assert made.step.trainable
    assert orjson.loads(made.messages[0]) == {"role": "user", "content": [{"type": "text", "text": "q"}]}


def test_ids_of_a_call_that_sends_only_what_is_new_are_not_kept() -> None:
    body = submitted(continues="response:r1", prompt_ids=[1], response_ids=[2])
    (made,) = parsed(body, Redactor(KEYS)).drafts
    assert made.tokens is None and not made.step.trainable
    assert "could not look at" in (made.step.untrainable_reason or "")
    (made,) = parsed(body, Redactor()).drafts
    assert made.tokens is not None and made.step.trainable


def test_a_reason_that_was_there_is_kept() -> None:
    (made,) = parsed(
        submitted(response=SECRET, trainable=False, untrainable_reason=f"bad key {SECRET}"), Redactor(KEYS)
    ).drafts
    assert made.step.untrainable_reason == "redacted by keys; bad key [key]"


def test_a_rule_that_raises_withholds_the_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module(tmp_path, monkeypatch, "raise ValueError(text)")
    into = parsed(submitted(response=SECRET), rules(callables=[name]))
    (row,) = into.quarantined
    assert not into.drafts
    assert row["response_body"] is None and row["response_head"] is None
    assert row["reason"] == f"the redaction rule {name} failed: ValueError"


def test_a_rule_that_gives_what_cannot_be_stored_withholds_the_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = module(tmp_path, monkeypatch, r"return text + '\ud800'")
    (row,) = parsed(submitted(), rules(callables=[name])).quarantined
    assert row["response_body"] is None
    assert "half a surrogate pair" in row["reason"]


@pytest.mark.parametrize("rest", [rb'\ud83d"}', b'\\ud83d \xff"}'])
def test_half_a_surrogate_pair_costs_only_its_record(rest: bytes) -> None:
    """The second is bytes that are no UTF-8 besides, and cannot be put together again."""
    body = rb'{"no step": "\u0073' + SECRET[1:].encode() + b" " + rest
    (row,) = parsed(body, Redactor(KEYS)).quarantined
    assert row["response_body"] == (None if b"\xff" in rest else rb'{"no step":"[key] \ud83d"}')


def test_a_rule_that_gives_no_text_withholds_the_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module(tmp_path, monkeypatch, "return None")
    (row,) = parsed(submitted(), rules(callables=[name])).quarantined
    assert row["response_body"] is None
    assert "gave no text but NoneType" in row["reason"]


@pytest.mark.parametrize("coding", ["", "gzip"])
@pytest.mark.parametrize("body", [f'{{"x": "{SECRET}"', rf'{{"x": "\u0073{SECRET[1:]}"}}', f"\xff {SECRET} \xfe"])
def test_quarantined_bytes_are_redacted(feed: Any, warehouse: Warehouse, spools: Path, coding: str, body: str) -> None:
    raw = body.encode("latin-1")
    headers = [("content-encoding", coding)] if coding else []
    asked = Request("POST", "https://llm.example/v1/chat/completions", [], b"not json " + SECRET.encode(), 1)
    answer = Response(200, headers, gzip.compress(raw) if coding else raw, "complete", 2)
    feed.put(request_entry("e1", asked, dialect="openai.chat"), response_entry("e1", answer))
    Ingest(warehouse, spools, Redactor(KEYS)).run_once()
    (row,) = quarantined(warehouse)
    assert row["request_body"] == b"not json [key]"
    assert b"[key]" in row["response_body"] and b"k-abcdefghij" not in row["response_body"]
    assert b"content-encoding" not in row["response_head"].encode()
    assert row["reason"].endswith("(redacted by keys)")


def test_a_quarantined_stream_that_says_it_in_pieces_is_withheld(feed: Any, warehouse: Warehouse, spools: Path) -> None:
    pieces = ["sk-abc", "defghij", "0123"]
    stream = b"".join(
        b"data: " + orjson.dumps({"choices": [{"delta": {"content": piece}}]}) + b"\n\n" for piece in pieces
    )
    asked = Request("POST", "https://llm.example/v1/chat/completions", [], b"no json", 1)
    answer = Response(200, [], stream, "complete", 2)
    feed.put(request_entry("e1", asked, dialect="openai.chat"), response_entry("e1", answer))
    Ingest(warehouse, spools, Redactor(KEYS)).run_once()
    (row,) = quarantined(warehouse)
    assert row["response_body"] is None
    assert row["request_body"] == b"no json"
    assert "its body is withheld" in row["reason"]


def test_no_table_holds_what_a_rule_matches(
    feed: Any, local: Any, warehouse: Warehouse, spools: Path, drained: Callable[[Ingest], int]
) -> None:
    asked = [{"role": "user", "content": f"my key is {SECRET}"}]
    feed.exchange(asked, "I see", "t1")
    feed.exchange([*asked, {"role": "assistant", "content": "I see"}, {"role": "user", "content": "so?"}], SECRET, "t1")
    feed.exchange([{"role": "user", "content": "clean"}], "yes", "t1")
    feed.trajectory("t1", metadata={SECRET: [SECRET]})
    feed.trajectory("t1", "failed", reason=f"exit: {SECRET}")
    feed.feedback(trajectory_id="t1", comment=SECRET, metadata={"k": SECRET})
    feed.feedback(trajectory_id="t1", label=SECRET)
    feed.feedback(step_id="s1", correction=f"say {SECRET}")
    feed.step(step_id="s1", response=SECRET, metadata={"k": SECRET}, trajectory_id="t2")
    drained(Ingest(warehouse, spools, Redactor(KEYS)))
    for name in TABLES:
        stored = orjson.dumps(local.open().tables[name].dataset.to_table().to_pylist(), default=str)
        assert b"sk-abc" not in stored
    rows = warehouse.query(
        "SELECT trainable, untrainable_reason, response_ids, logprobs, turn FROM steps WHERE trajectory_id = 't1' ORDER BY sequence"
    ).to_pylist()
    assert [row["trainable"] for row in rows] == [False, False, True]
    assert [row["untrainable_reason"] for row in rows] == ["redacted by keys", "redacted by keys", None]
    assert [row["response_ids"] for row in rows] == [None, None, [7, 8, 9]]
    assert [row["turn"] for row in rows] == [0, 1, 0]  # the redacted conversation still is one
    correction = warehouse.query("SELECT payload FROM events WHERE kind = 'correction'").to_pylist()[0]["payload"]
    assert "say [key]" in correction
