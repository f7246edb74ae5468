"""What is installed and set, without what must not be seen; saved views."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.gateway.scene import TOKEN, Scene, step

from stepwell.gateway import GatewayConfig, create_app
from stepwell.gateway._system import masked
from stepwell.gateway._tokens import Tokens
from stepwell.gateway._views import View, Views
from stepwell.warehouse import Warehouse

BASE = "http://127.0.0.1:8787"


def test_what_may_be_secret_is_not_shown() -> None:
    said = {
        "gateway": {"port": 1, "webhooks": {"shop": "the secret", "desk": ["a", "b"]}},
        "proxy": {"routes": [{"host": "h", "upstream": "https://me:pass@up/x@y", "headers": {"authorization": "z"}}]},
        "store": {"endpoint": "http://s3", "access_key": "k", "session_token": None},
        "redact": {"rules": [{"name": "ours", "pattern": "the-secret-itself", "replace": "[ours]"}]},
    }
    assert masked(said) == {
        "gateway": {"port": 1, "webhooks": {"shop": "…", "desk": ["…", "…"]}},
        "proxy": {"routes": [{"host": "h", "upstream": "https://…@up/x@y", "headers": {"authorization": "…"}}]},
        "store": {"endpoint": "http://s3", "access_key": "…", "session_token": None},
        "redact": {"rules": [{"name": "ours", "pattern": "…", "replace": "[ours]"}]},
    }


@pytest.fixture(name="scene")
def _scene(tmp_path: Path) -> Any:
    scene = Scene(tmp_path)
    yield scene
    scene.close()


def client(scene: Scene, tmp_path: Path, token: str = TOKEN) -> TestClient:
    app = create_app(
        writer=scene.writer,
        spool_folder=scene.spool,
        token=TOKEN,
        warehouse=lambda: Warehouse.open(scene.root, create=False),
        config=GatewayConfig(),
        tokens=Tokens(tmp_path / "home"),
        views=tmp_path / "views.json",
        settings={"gateway": {"webhooks": {"shop": "secret!"}}, "proxy": {"routes": [{"host": "a.example"}]}},
    )
    return TestClient(app, base_url=BASE, headers={"authorization": f"Bearer {token}"})


def test_storage_is_that_of_the_tables(scene: Scene, tmp_path: Path) -> None:
    scene.put("/steps", *(step(f"s{n}", "t", n, reward=1) for n in range(3)))
    scene.commit()
    scene.warehouse.datasets.create("kept", "true", pin=True)
    with client(scene, tmp_path) as http:
        answer = http.get("/api/v1/system")
    assert "secret!" not in answer.text
    said = answer.json()
    assert said["routes"] == [{"host": "a.example"}] and said["settings"]["gateway"]["webhooks"] == {"shop": "…"}
    tables = {table["table"]: table for table in said["storage"]["tables"]}
    assert (tables["steps"]["rows"], tables["events"]["rows"], tables["datasets"]["rows"]) == (3, 3, 1)
    size = sum(file.stat().st_size for file in (scene.root / "steps.lance").rglob("*") if file.is_file())
    assert 0 < tables["steps"]["bytes"] <= size
    assert said["storage"]["bytes"] == sum(table["bytes"] for table in tables.values())
    assert [pin["tag"] for pin in tables["steps"]["pins"]] == ["stepwell-kept-v1"] and tables["commits"]["pins"] == []
    assert tables["steps"]["versions"] >= 2 and said["software"]["stepwell"]


def test_tokens_are_for_admins(scene: Scene, tmp_path: Path) -> None:
    reading, token = Tokens(tmp_path / "home").create(["read"], project="shop", note="a reader")
    with client(scene, tmp_path) as http:
        [shown] = http.get("/api/v1/system/tokens").json()["items"]
    assert (shown["id"], shown["scopes"], shown["project"], shown["note"]) == (token.id, ["read"], "shop", "a reader")
    assert shown["expires_at"] is None and reading not in str(shown)
    with client(scene, tmp_path, reading) as http:
        assert http.get("/api/v1/system").status_code == 200
        assert http.get("/api/v1/system/tokens").status_code == 403
        assert http.get("/api/v1/views").status_code == 200
        for path in ("/views/a", "/datasets/a@1"):
            assert http.delete(f"/api/v1{path}").status_code == 403
        assert http.post("/api/v1/quarantine/x/reparse").status_code == 403


def test_a_view_is_kept_changed_and_deleted(scene: Scene, tmp_path: Path) -> None:
    with client(scene, tmp_path) as http:
        assert http.get("/api/v1/views").json()["items"] == []
        put = http.put("/api/v1/views/my view", json={"view": {"route": "#/steps?q=é"}, "note": "n"}).json()
        assert (put["name"], put["view"], put["note"]) == ("my view", {"route": "#/steps?q=é"}, "n")
        assert http.put("/api/v1/views/a", json={"view": {}}).status_code == 200
    with client(scene, tmp_path) as http:  # another process
        assert [one["name"] for one in http.get("/api/v1/views").json()["items"]] == ["a", "my view"]
        assert http.put("/api/v1/views/a", json={"view": {"n": 1}}).json()["view"] == {"n": 1}
        assert http.get("/api/v1/views/a").json()["view"] == {"n": 1}
        assert http.delete("/api/v1/views/a").status_code == 204
        for method in ("get", "delete"):
            assert getattr(http, method)("/api/v1/views/a").status_code == 404
        assert http.put("/api/v1/views/mine%2Fnew", json={"view": {}}).json()["name"] == "mine/new"
        assert http.get("/api/v1/views/mine%2Fnew").status_code == 200
        assert http.delete("/api/v1/views/mine%2Fnew").status_code == 204
        for bad in ({"view": 1}, {}, {"view": {}, "more": 1}, {"view": {"n": 2**70}}, {"view": {"x": "y" * 70_000}}):
            assert http.put("/api/v1/views/b", content=json.dumps(bad)).status_code == 422, bad


@pytest.mark.parametrize("content", ["{", "[]", '{"views": {"a": 5}}', '{"views": 1}'])
def test_a_damaged_file_of_views_is_none_and_is_not_written_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "views.json").write_text(content)
    views = Views(tmp_path / "views.json")
    assert views.all() == []
    views.put("a", View(view={"n": 1}))
    assert [one["name"] for one in Views(tmp_path / "views.json").all()] == ["a"]
    assert (tmp_path / "views.json.damaged").read_text() == content


def test_what_is_too_large_for_a_view_is_not_read(scene: Scene) -> None:
    answer = scene.http.put("/api/v1/views/a", content=b'{"view": {"x": "' + b"y" * 200_000 + b'"}}')
    assert answer.status_code == 413 and scene.get("/views").json()["items"] == []
    assert scene.http.put("/api/v1/views/a", content=b"{").status_code == 400
