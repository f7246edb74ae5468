"""`stepwell import` over recorded traffic of real servers, against what each vendor's own SDK makes of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
FOLDERS = sorted(path.name for path in (CORPUS / "exchanges").glob("*") if path.name != "not_a_step")

pytestmark = pytest.mark.skipif(not FOLDERS, reason="needs the recorded exchanges in ../shared/corpus")

Line = dict[str, Any]

JUSTIFIED = {
    # The server says id and name twice; the SDK strings the two together, which names nothing.
    "openai_chat/llm__test_tools_streaming-test_tools_streaming_variant_a__00": [("0", "llm_version", "{}")],
    # Two messages spliced into one stream, each with a block 1. The SDK appends the second one's arguments to the first one's call,
    # and leaves the second call without any; we keep by the recording what was said for each, the first of them cut off as it was.
    "anthropic/ai__spliced-message-start.chunks__00": [
        ("toolu_first", "test-tool", '{"value":"Spark'),
        ("toolu_second", "test-tool", '{"value":"Sparkle Day"}'),
    ],
}
"""Where we say something else than the SDK, and the calls that the recording has there. At most five."""
UNPARSEABLE = {"openai_chat/pydantic-ai__test_openai-test_text_response__00"}
"""An echo service answered a chat request with its own plain text."""


def by_id(name: str) -> dict[str, Line]:
    lines = (CORPUS / name).read_text(encoding="utf8").splitlines()
    return {line["id"]: line for line in map(json.loads, lines)}


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Line]:
    """What a dry run says of each recording, by id."""
    command = [sys.executable, "-P", "-m", "stepwell.cli", "import", str(CORPUS / "exchanges"), "--dry-run", "--json"]
    folder = tmp_path_factory.mktemp("import")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == [], "a dry run writes nothing"
    return {line["id"]: line for line in map(json.loads, done.stdout.splitlines())}


def test_every_recording_has_its_line(lines: dict[str, Line]) -> None:
    manifest = by_id("MANIFEST.jsonl").values()
    assert lines.keys() == {entry["id"] for entry in manifest if entry["file"].startswith("exchanges/")}


def test_what_is_not_a_step_becomes_none(lines: dict[str, Line]) -> None:
    others = [line for name, line in lines.items() if name.startswith("not_a_step/")]
    assert others
    assert [line["id"] for line in others if line["step"]] == []
    assert {line["reason"] for line in others} == {"not a generation"}


def test_every_generation_becomes_a_step(lines: dict[str, Line]) -> None:
    """But for the one answer that no model gave."""
    left_out = {
        name: line["reason"] for name, line in lines.items() if not line["step"] and not name.startswith("not_a_step/")
    }
    assert left_out.keys() == UNPARSEABLE, left_out


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_recording_says_what_the_sdk_says(lines: dict[str, Line], folder: str) -> None:
    wrong: dict[str, list[str]] = {}
    for name, wanted in by_id("EXPECTED.jsonl").items():
        compared = name.startswith(f"{folder}/") and "result" in wanted and name not in JUSTIFIED.keys() | UNPARSEABLE
        if compared and (differences := compare(lines[name], wanted["result"])):
            wrong[name] = differences
    kinds = Counter(difference.partition(":")[0] for differences in wrong.values() for difference in differences)
    assert not wrong, f"{dict(kinds)}: {json.dumps(wrong, indent=1)[:8000]}"


@pytest.mark.parametrize("name", JUSTIFIED)
def test_where_the_sdk_is_wrong_we_say_what_the_recording_says(lines: dict[str, Line], name: str) -> None:
    (choice,) = lines[name]["choices"]
    assert [(call["id"], call["name"], call["arguments"]) for call in choice["tool_calls"]] == JUSTIFIED[name]
    assert compare(lines[name], by_id("EXPECTED.jsonl")[name]["result"]), "the SDK says the same: it needs no exception"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_error_is_one(lines: dict[str, Line], folder: str) -> None:
    for name, wanted in by_id("EXPECTED.jsonl").items():
        if name.startswith(f"{folder}/") and (wanted.get("how") or "").startswith("sdk_error"):
            assert lines[name]["status"] == "error", name
            assert not lines[name]["trainable"]


def test_an_answer_without_its_request_is_never_trained_on(lines: dict[str, Line]) -> None:
    unasked = [name for name, entry in by_id("MANIFEST.jsonl").items() if entry.get("request_recorded") is False]
    assert {lines[name]["reason"] for name in unasked} == {"the request was not recorded"}
    assert not any(lines[name]["trainable"] for name in unasked)


def compare(line: Line, wanted: Line) -> list[str]:
    """Differences, one text each. Where the SDK drops what the server sent (an id, a thought), it says nothing to compare with."""
    wrong = []
    if not subset(wanted.get("usage"), line["usage"]):
        wrong.append(f"usage: {line['usage']} for {wanted['usage']}")
    if wanted.get("response_id") and line["response_id"] != wanted["response_id"]:
        wrong.append(f"response_id: {line['response_id']} for {wanted['response_id']}")
    if len(line["choices"]) != len(wanted["choices"]):
        return [*wrong, f"choices: {len(line['choices'])} for {len(wanted['choices'])}"]
    for choice, sdk in zip(line["choices"], wanted["choices"], strict=True):
        pairs = {
            "text": (choice["text"], flat(sdk["text"])),
            "reasoning": (choice["reasoning"] if sdk.get("reasoning") else None, sdk.get("reasoning") or None),
            "refusal": (choice["refusal"], sdk.get("refusal") or None),
            "finish_reason": (choice["finish_reason"], sdk["finish_reason"] or None),
            "tool_calls": calls_of(choice, sdk),
        }
        wrong += [f"{field}: {a!r} for {b!r}"[:600] for field, (a, b) in pairs.items() if a != b]
    return wrong


def calls_of(choice: Line, sdk: Line) -> tuple[list[Any], list[Any]]:
    """Ours and the SDK's. Of calls whose arguments come in pieces, the Gemini SDK gives the pieces: the names are left to compare."""
    function = sdk.get("function_call")
    theirs = (sdk.get("tool_calls") or []) + ([function] if function else [])
    if any(call.get("partial") or call["name"] is None for call in theirs):
        return [call["name"] for call in choice["tool_calls"]], [call["name"] for call in theirs if call["name"]]
    ours = [(call["id"], call["name"], value(call["arguments"])) for call in choice["tool_calls"]]
    raws = [call["arguments"] if call.get("arguments_raw") is None else call["arguments_raw"] for call in theirs]
    ids = [call.get("id") or (ours[place][0] if place < len(ours) else None) for place, call in enumerate(theirs)]
    return ours, [(id_, call["name"], value(raw)) for id_, call, raw in zip(ids, theirs, raws, strict=True)]


def value(arguments: Any) -> Any:
    """Parsed where they are JSON; none at all and an empty object are the same call."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except json.JSONDecodeError:
            return arguments or {}
    return arguments or {}


def flat(content: Any) -> str:
    """Some servers of OpenAI's chat give a list of parts as text."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if part.get("type") == "text")
    return content or ""


def subset(wanted: Any, found: Any) -> bool:
    """The SDKs drop nulls, and what they do not know keeps its values."""
    if wanted is None:
        return True
    if isinstance(wanted, dict):
        found = {} if found is None else found
        return isinstance(found, dict) and all(
            subset(inner, found.get(key, found.get(camel(key)))) for key, inner in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(wanted) == len(found) and all(map(subset, wanted, found))
    return bool(wanted == found)


def camel(name: str) -> str:
    """Google's SDK renames the fields of its API."""
    return re.sub("_([a-z])", lambda letter: letter.group(1).upper(), name)
