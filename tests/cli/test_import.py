"""`stepwell import`: recordings into the warehouse."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli import main
from stepwell.spool import Spool, SpoolReader

pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")

URL = "https://api.openai.com/v1/chat/completions"
SECRET = "sk-canary-91c2"


def recording(question: str, *, url: str = URL, answer: Any = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"content": f"{question}!"}, "finish_reason": "stop"}
    replied = {"id": f"r-{question}", "model": "m-1", "usage": {"total_tokens": 3}, "choices": [choice]}
    asked = json.dumps({"model": "m", "messages": [{"role": "user", "content": question}]})
    return {
        "request": {"method": "POST", "url": url, "headers": {"Authorization": f"Bearer {SECRET}"}, "body": asked},
        "response": {"status": 200, "headers": {"Set-Cookie": SECRET}, "body": answer or replied},
        **more,
    }


OTHER = recording("list", url=f"https://api.openai.com/v1/models?key={SECRET}")
BAD = recording("bad", answer="no JSON")


@pytest.fixture
def write(place: Path) -> Any:
    """Write recordings to a file, one per line; its name."""

    def write(*recordings: dict[str, Any], name: str = "calls.jsonl") -> str:
        (place / name).write_text("".join(json.dumps(value) + "\n" for value in recordings))
        return name

    return write


def rows(sql: str) -> list[dict[str, Any]]:
    from stepwell.warehouse import Warehouse

    found: list[dict[str, Any]] = Warehouse.open("stepwell-data/warehouse", create=False).query(sql).to_pylist()
    return found


def lines(capfd: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


@contextmanager
def ingest_running(data: Path) -> Iterator[None]:
    from stepwell.warehouse import IngestConfig, run_ingest

    ready, stop = threading.Event(), threading.Event()
    options: dict[str, Any] = {"data": data, "warehouse": str(data / "warehouse"), "storage_options": {}}
    work = threading.Thread(
        target=run_ingest, args=(IngestConfig(),), kwargs={**options, "ready": lambda _: ready.set(), "stop": stop}
    )
    work.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        stop.set()
        work.join(60)


def test_a_dry_run_says_what_each_exchange_comes_to(write: Any, place: Path, capfd: Any) -> None:
    tool = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    message = {"content": "so", "reasoning_content": "hm", "refusal": "no", "tool_calls": [tool]}
    many = {"id": "r", "choices": [{"index": n, "message": message, "finish_reason": "tool_calls"} for n in (0, 1)]}
    file = write(recording("hi", id="mine"), recording("many", answer=many), OTHER, BAD)
    assert main(["import", file, "--dry-run", "--json"]) == 0
    one, two, other, bad = lines(capfd)
    choice: dict[str, Any] = {
        "text": "hi!",
        "reasoning": None,
        "refusal": None,
        "tool_calls": [],
        "finish_reason": "stop",
    }
    assert one == {
        "id": "mine",
        "dialect": "openai.chat",
        "step": True,
        "status": "ok",
        "model": "m-1",
        "choices": [choice],
        "usage": {"total_tokens": 3},
        "response_id": "r-hi",
        "trainable": False,
        "reason": "the engine gave no token ids",
    }
    call = {"id": "c", "name": "f", "arguments": '{"a": 1}'}
    said = {"text": "so", "reasoning": "hm", "refusal": "no", "tool_calls": [call], "finish_reason": "tool_calls"}
    assert two["choices"] == [said, said]
    assert two["id"].startswith("import-")
    assert (other["step"], other["reason"], other["dialect"]) == (False, "not a generation", None)
    assert (bad["step"], bad["reason"].startswith("the response is no JSON")) == (False, True)
    assert sorted(path.name for path in place.iterdir()) == [file]


def test_a_call_that_failed_has_a_status_and_no_choices(write: Any, capfd: Any) -> None:
    failed = recording("x", answer={"error": {"message": "busy"}})
    failed["response"]["status"] = 529
    main(["import", write(failed), "--dry-run", "--json"])
    (line,) = lines(capfd)
    assert (line["step"], line["status"], line["choices"], line["trainable"]) == (True, "error", [], False)


def test_the_summary_counts_everything(write: Any, place: Path, capfd: Any) -> None:
    (place / "notes.md").write_text("# nothing")
    file = write(recording("a"), recording("b"), OTHER, BAD)
    assert main(["import", file, "notes.md", "--dry-run"]) == 0
    out, error = capfd.readouterr()
    assert out == "2 files: 4 exchanges, 2 steps, 1 without a step, 1 quarantined; 1 file not read whole\n"
    quarantined, unreadable = error.splitlines()
    assert quarantined.startswith(f"stepwell: {file}: import-")
    assert "is quarantined: the response is no JSON" in quarantined
    assert unreadable.startswith("stepwell: notes.md: is neither a HAR file")


@pytest.mark.parametrize(
    ("recordings", "more", "code"),
    [
        ([recording("a"), BAD], [], 0),
        ([recording("a"), BAD], ["--strict"], 1),
        ([recording("a"), OTHER], ["--strict"], 0),
        ([recording("a"), {"no": 1}], [], 0),
        ([recording("a"), {"no": 1}], ["--strict"], 1),
        ([{"no": 1}], [], 1),
        ([], [], 1),
    ],
)
def test_exit_codes(write: Any, recordings: list[Any], more: list[str], code: int, capfd: Any) -> None:
    assert main(["import", write(*recordings), "--dry-run", *more]) == code


def test_a_path_that_is_not_there_is_refused_before_anything_is_read(write: Any, place: Path, capfd: Any) -> None:
    assert main(["import", write(recording("a")), "gone.har"]) == 2
    assert capfd.readouterr().err == "stepwell: there is no gone.har\n"
    assert not (place / "stepwell-data").exists()


def test_steps_come_into_the_warehouse(write: Any, capfd: Any) -> None:
    assert main(["import", write(recording("a"), recording("b", id="own"), OTHER, BAD)]) == 0
    found = rows("SELECT * FROM steps ORDER BY response_id")
    assert [(row["response_id"], row["status"], row["trainable"]) for row in found] == [
        ("r-a", "ok", False),
        ("r-b", "ok", False),
    ]
    assert [row["started_at"] for row in found] == [None, None]
    assert len(rows("SELECT * FROM quarantine")) == 1


def test_an_answer_alone_is_a_step_that_is_not_trained_on(write: Any, capfd: Any) -> None:
    assert main(["import", write({"request": None, "response": recording("a")["response"]})]) == 0
    (row,) = rows("SELECT * FROM steps")
    assert (row["response_id"], row["trainable"]) == ("r-a", False)
    assert row["untrainable_reason"] == "the request was not recorded"


def test_importing_twice_adds_nothing(write: Any, capfd: Any) -> None:
    file = write(recording("a"), recording("b"), BAD)
    for _ in range(3):
        assert main(["import", file]) == 0
    assert len(rows("SELECT * FROM steps")) == 2
    assert len(rows("SELECT * FROM quarantine")) == 1
    main(["import", write(recording("c"), recording("a"), name="more.jsonl")])
    assert len(rows("SELECT * FROM steps")) == 3


def test_what_is_stored_is_not_kept_twice(write: Any, place: Path, capfd: Any) -> None:
    main(["import", write(recording("a"), recording("b"))])
    with SpoolReader(place / "stepwell-data" / "spool" / "import.db") as reader:
        assert (reader.read(0), reader.last()) == ([], 4)


def test_what_an_earlier_import_left_is_taken_in(write: Any, place: Path, capfd: Any) -> None:
    """Killed between the spool and the warehouse."""
    from stepwell.cli._import_delivery import Delivery
    from stepwell.cli._settings import load_settings
    from stepwell.exchange import found_in_json

    with Delivery(load_settings(), {}) as delivery:
        delivery.add(found_in_json(recording("a")))
        delivery._write()
    assert main(["import", write(recording("b"))]) == 0
    assert len(rows("SELECT * FROM steps")) == 2


def test_a_running_ingest_does_the_work(write: Any, place: Path, capfd: Any) -> None:
    with ingest_running(place / "stepwell-data"):
        assert main(["import", write(recording("a"), recording("b"))]) == 0
        assert len(rows("SELECT * FROM steps")) == 2


def test_a_full_spool_is_emptied_on_the_way(
    write: Any, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    from stepwell.cli import _import_delivery

    monkeypatch.setattr(_import_delivery, "_ENTRIES", 4)
    monkeypatch.setattr(_import_delivery, "Spool", lambda path: Spool(path, max_bytes=5_000))
    assert main(["import", write(*(recording(str(number)) for number in range(12)))]) == 0
    assert len(rows("SELECT * FROM steps")) == 12


def test_one_rollout_is_a_trajectory_that_is_complete(write: Any, capfd: Any) -> None:
    file = write(recording("a"), recording("b"))
    options = ["--trajectory", "t:1", "--group", "g", "--prompt", "p", "--split", "eval"]
    for _ in range(2):
        assert main(["import", file, *options]) == 0
    assert {
        (row["trajectory_id"], row["group_id"], row["prompt_id"], row["split"]) for row in rows("SELECT * FROM steps")
    } == {("t:1", "g", "p", "eval")}
    (trajectory,) = rows("SELECT * FROM trajectories")
    assert (trajectory["state"], trajectory["steps"]) == ("completed", 2)
    assert len(rows("SELECT * FROM events")) == 2


def test_a_group_without_a_trajectory_is_said_of_each_exchange(write: Any, place: Path, capfd: Any) -> None:
    from stepwell.cli._import_delivery import Delivery
    from stepwell.cli._settings import load_settings
    from stepwell.exchange import found_in_json

    named = recording("a")
    named["request"]["headers"]["X-Stepwell-Group"] = "old"
    with Delivery(load_settings(), {"group_id": "g", "prompt_id": "p", "split": "eval"}) as delivery:
        delivery.add(found_in_json(named))
        delivery._write()
    with SpoolReader(place / "stepwell-data" / "spool" / "import.db") as reader:
        head = json.loads(reader.read(0)[0].head)
    assert head["headers"] == [["x-stepwell-group", "g"], ["x-stepwell-prompt", "p"], ["x-stepwell-split", "eval"]]
    assert (head["trajectory_id"], head["client"]) == (None, "import")


@pytest.mark.parametrize("options", [["--trajectory", ""], ["--trajectory", "x" * 600, "--prompt", "p"]])
def test_an_id_that_is_none_is_refused(write: Any, options: list[str], capfd: Any) -> None:
    assert main(["import", write(recording("a")), *options]) != 0
    assert "trajectory_id" in capfd.readouterr().err


def test_an_import_without_generations_leaves_nothing(write: Any, place: Path, capfd: Any) -> None:
    assert main(["import", write(OTHER)]) == 0
    assert capfd.readouterr().out == "1 file: 1 exchange, 0 steps, 1 without a step, 0 quarantined\n"
    assert not (place / "stepwell-data" / "warehouse").exists()


def test_no_credential_is_written(write: Any, place: Path, capfd: Any) -> None:
    for name in ("Authorization", "x-api-key", "Cookie", "proxy-authorization"):
        call = recording(name, url=f"https://u:{SECRET}@api.openai.com/v1/chat/completions?key={SECRET}", id=name)
        call["request"]["headers"] = {name: SECRET}
        assert main(["import", write(call, BAD, OTHER), "--json"]) == 0
    out, error = capfd.readouterr()
    assert SECRET not in out + error
    files = [path for path in (place / "stepwell-data").rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


CANARY = "sk-prompt-7f3a"
RULE = "[[redact.rules]]\nname = 'keys'\npattern = 'sk-prompt-[0-9a-f]+'\nreplace = '[key]'\n"


def telling(where: str) -> dict[str, Any]:
    """A call with the canary in one place of it."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps({"key": CANARY})}}
    message = {
        "text": {"content": CANARY},
        "thought": {"content": "", "reasoning": CANARY},
        "call": {"tool_calls": [call]},
    }
    if where in message:
        choice = {"index": 0, "message": message[where], "finish_reason": "stop"}
        return recording(where, answer={"id": "r", "model": "m", "choices": [choice]}, id=where)
    told = recording("x", id=where)
    if where == "prompt":
        told["request"]["body"] = told["request"]["body"].replace('"x"', f'"{CANARY}"')
        return told
    # The reason it is quarantined for repeats the answer's fields.
    url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/invoke"
    told["request"] |= {"url": url, "body": json.dumps({"prompt": "hi"})}
    told["response"]["body"] = {CANARY: 1}
    return told


PLACES = ("text", "thought", "call", "prompt", "field")


@pytest.mark.parametrize("options", [["--dry-run"], ["--dry-run", "--json"], ["--json"], []])
def test_what_is_printed_is_redacted(write: Any, place: Path, options: list[str], capfd: Any) -> None:
    (place / "stepwell.toml").write_text(RULE)
    assert main(["import", write(*map(telling, PLACES)), *options]) == 0
    out, error = capfd.readouterr()
    assert CANARY not in out + error
    assert "field is quarantined: the response is of no known form: it has ['[key]'] (redacted by keys)" in error
    if "--json" in options:
        said = {line["id"]: line for line in map(json.loads, out.splitlines())}
        assert said["text"]["choices"][0]["text"] == said["thought"]["choices"][0]["reasoning"] == "[key]"
        assert said["call"]["choices"][0]["tool_calls"][0]["arguments"] == '{"key": "[key]"}'
        assert {said[name]["reason"].split(";")[0] for name in PLACES[:4]} == {"redacted by keys"}


def test_what_is_printed_is_what_is_stored(write: Any, place: Path, capfd: Any) -> None:
    (place / "stepwell.toml").write_text(RULE)
    assert main(["import", write(*map(telling, PLACES)), "--json"]) == 0
    said = [line["reason"] for line in lines(capfd)]
    stored = rows("SELECT untrainable_reason AS reason FROM steps UNION ALL SELECT reason FROM quarantine")
    assert sorted(said) == sorted(row["reason"] for row in stored)


def test_a_rule_that_fails_shows_nothing(write: Any, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    (place / "rules_that_fail.py").write_text("def fail(text):\n    raise ValueError(text)\n")
    (place / "stepwell.toml").write_text("[redact]\ncallables = ['rules_that_fail:fail']\n")
    monkeypatch.syspath_prepend(place)
    assert main(["import", write(*map(telling, PLACES)), "--dry-run", "--json"]) == 0
    out, error = capfd.readouterr()
    assert CANARY not in out + error
    assert {line["reason"] for line in map(json.loads, out.splitlines())} == {
        "the redaction rule rules_that_fail:fail failed: ValueError"
    }


def test_a_dry_run_refuses_rules_that_it_cannot_follow(write: Any, place: Path, capfd: Any) -> None:
    (place / "stepwell.toml").write_text("[redact]\ncallables = ['not_there:fail']\n")
    assert main(["import", write(recording("a")), "--dry-run"]) == 2
    assert "not_there:fail cannot be imported" in capfd.readouterr().err


def test_many_quarantined_are_not_all_named(write: Any, capfd: Any) -> None:
    main(["import", write(*({**BAD, "id": str(number)} for number in range(50))), "--dry-run"])
    out, error = capfd.readouterr()
    assert len(error.splitlines()) == 20
    assert "50 quarantined" in out
