"""Datasets made from a list's filters, compared, told of, downloaded and deleted."""

from __future__ import annotations

import asyncio
import gc
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.gateway.peopled import people
from tests.gateway.scene import TOKEN, Scene
from tests.gateway.test_filters import FILTERS

from stepwell.gateway._read_datasets import _DOWNLOADS

SAME = [(given, fits) for given, fits in FILTERS if "superseded" not in given and given.get("q") != "trombone"]
"""Filters that find something; lists show superseded attempts, datasets have none."""


@pytest.fixture(scope="module", name="scene")
def _scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("datasets"))
    yield scene
    scene.close()


@pytest.fixture(scope="module", name="steps")
def _steps(scene: Scene) -> list[dict[str, Any]]:
    return people(scene)


def post(scene: Scene, **said: Any) -> Any:
    return scene.http.post("/api/v1/datasets", json=said)


def test_a_dataset_of_a_filter_is_what_the_list_shows(scene: Scene, steps: list[dict[str, Any]]) -> None:
    for number, (given, fits) in enumerate(SAME):
        right = sorted(step["step_id"] for step in steps if fits(step))
        made = post(scene, name=f"of {number}", filter=given)
        assert made.status_code == 201, made.text
        assert made.json()["steps"] == len(right), given
        found = scene.warehouse.datasets.rows(scene.warehouse.datasets.get(f"of {number}"))
        assert sorted(found["step_id"].to_pylist()) == right, given


def test_versions_are_made_compared_downloaded_and_deleted(scene: Scene, steps: list[dict[str, Any]]) -> None:
    first = post(scene, name="math/1", where="model = 'm0'", note="why").json()
    assert (first["version"], first["steps"], first["note"]) == (1, 14, "why")
    assert first["code"]["table"] == "warehouse.datasets.read('math/1', 1)"
    second = post(scene, name="math/1", filter={"where": "model = 'm0' OR model = 'm1'", "has_reward": True}, pin=True)
    assert second.json()["version"] == 2 and second.json()["pinned"]
    before = {step["step_id"] for step in steps if step["model"] == "m0"}
    after = {step["step_id"] for step in steps if step["model"] != "m2" and step["reward"] is not None}
    said = scene.http.get("/api/v1/datasets/math%2F1/diff", params={"a": 1, "b": 2}).json()
    assert (said["added"], said["removed"], said["changed"]) == (len(after - before), len(before - after), 0)
    added = scene.http.get("/api/v1/datasets/math%2F1/diff", params={"a": 1, "b": 2, "change": "added"}).json()
    assert {row["step_id"] for row in added["items"]} == after - before and added["next_skip"] is None
    lineage = scene.http.get("/api/v1/datasets/math%2F1@2/lineage").json()
    assert lineage["dataset"] == "math/1@2" and lineage["at_commit"] == second.json()["at_commit"]
    whole = scene.get("/datasets", "math/1").json()
    assert (whole["version"], whole["versions"]) == (2, [1, 2]) and "math/1@2" in whole["code"]["reader"]

    right = scene.warehouse.datasets.read("math/1", 1)
    for to in ("parquet", "arrow", "jsonl"):
        answer = scene.http.get("/api/v1/datasets/math%2F1@1/download", params={"to": to})
        assert answer.headers["content-disposition"] == f'attachment; filename="math_1-v1.{to}"'
        if to == "jsonl":
            rows = [json.loads(line) for line in answer.content.splitlines()]
            assert [row["step_id"] for row in rows] == right["step_id"].to_pylist()
            assert rows[0]["messages"] == json.loads(right["messages"][0].as_py())
        else:
            read = pq.read_table if to == "parquet" else lambda file: pa.ipc.open_stream(file).read_all()
            assert read(io.BytesIO(answer.content)).to_pylist() == right.to_pylist()

    def delete(name: str, **asked: Any) -> int:
        return int(scene.http.delete(f"/api/v1/datasets/{name}", params=asked).status_code)

    assert [delete("math%2F1"), delete("math%2F1@7"), delete("math%2F1@2")] == [422, 404, 409]
    assert [delete("math%2F1@2", force=True), delete("math%2F1@2"), delete("math%2F1@1")] == [204, 404, 204]
    assert scene.get("/datasets", name="math/1").json()["items"] == []


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"where": "nothing = 1"}, "where"),
        ({"where": "true", "filter": {}}, "filter"),
        ({"filter": {"modle": "m0"}}, "filter.modle"),
        ({"filter": {"model": "m0", "where": "true) OR (true"}}, "where"),
        ({"filter": {"model": "m0", "where": "agent = 'coder') OR (true"}}, "where"),
        ({"where": "model = 'none'"}, "where"),
        ({"where": "true; DROP TABLE steps"}, "where"),
        ({"name": "a@b"}, "name"),
    ],
)
def test_what_cannot_be_made_is_refused(
    scene: Scene, steps: list[dict[str, Any]], said: dict[str, Any], field: str
) -> None:
    answer = post(scene, **{"name": "bad", **said})
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    assert scene.get("/datasets", name="bad").json()["items"] == []


def test_what_is_too_large_is_not_read(scene: Scene) -> None:
    answer = scene.http.post("/api/v1/datasets", content=b'{"name": "' + b"x" * (3 << 20) + b'"}')
    assert answer.status_code == 413
    ids = ["\U0001f600" * 255 + chr(0x100 + number) for number in range(500)]  # the longest list there may be
    assert post(scene, name="long", filter={"ids": ids}).json()["field"] == "where"  # nothing is selected


def test_a_download_that_nobody_waits_for_gives_its_place_back(scene: Scene, steps: list[dict[str, Any]]) -> None:
    post(scene, name="left", where="model = 'm0'")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http", "query_string": b"",
        "path": "/api/v1/datasets/left@1/download", "raw_path": b"/api/v1/datasets/left@1/download", "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8787"), (b"authorization", f"Bearer {TOKEN}".encode())],
    }  # fmt: skip

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def nobody(_: Any) -> None:
        return None

    for _ in range(_DOWNLOADS + 1):
        with suppress(asyncio.CancelledError, ExceptionGroup):
            asyncio.run(scene.app(dict(scope), gone, nobody))
    gc.collect()
    assert scene.http.get("/api/v1/datasets/left@1/download").status_code == 200


def test_only_so_many_are_downloaded_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, steps: list[dict[str, Any]]
) -> None:
    post(scene, name="some", where="model = 'm0'")
    for _ in range(4):  # and each gives its place back
        assert scene.get("/datasets", "some").status_code == 200
        assert scene.http.get("/api/v1/datasets/some@1/download").status_code == 200
    assert scene.http.get("/api/v1/datasets/none@1/download").status_code == 404
