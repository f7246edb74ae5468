"""How the dashboard is served: to whom, with which headers, and that nothing but its own files is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from stepwell.gateway._dashboard import FOLDER, dashboard_routes
from stepwell.gateway._problems import install

FILES = sorted(str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*") if file.is_file())
SERVED = [name for name in FILES if name.rpartition(".")[2] in {"html", "js", "css", "svg", "txt"}]

IMPORTS = re.compile(
    r"""^\s*(?:import|export)\b[^;"'`]*?\bfrom\s*["']([^"']+)|^\s*import\s*["']([^"']+)|\bimport\(\s*["'`]([^"'`]+)""",
    re.MULTILINE,
)


@pytest.fixture
def page(api: Any) -> TestClient:
    """A browser that has no token."""
    del api.http.headers["authorization"]
    http: TestClient = api.http
    return http


def test_the_page_needs_no_token_and_lets_nothing_in_from_elsewhere(page: TestClient) -> None:
    answer = page.get("/")
    assert answer.status_code == 200 and answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy.pop("img-src") == "'self' data: blob:"
    assert {name: policy.pop(name) for name in ("script-src", "style-src", "connect-src")} == dict.fromkeys(
        ("script-src", "style-src", "connect-src"), "'self'"
    )
    assert policy == dict.fromkeys(("default-src", "base-uri", "form-action", "frame-ancestors"), "'none'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in answer.headers and "access-control-allow-origin" not in answer.headers


def test_the_page_has_no_scripts_and_no_styles_of_its_own(page: TestClient) -> None:
    text = page.get("/").text
    assert re.findall(r"<style|\sstyle=|\son\w+=", text) == []
    assert re.findall(r"<script(?![^>]*\ssrc=)", text) == []
    for address in re.findall(r'(?:src|href)="([^"]+)"', text):
        assert address.startswith("/assets/") and page.get(address).status_code == 200, address


@pytest.mark.parametrize("name", SERVED)
def test_every_file_is_served_as_what_it_is(page: TestClient, name: str) -> None:
    answer = page.get(f"/assets/{name}")
    assert answer.status_code == 200 and answer.content == (FOLDER / name).read_bytes()
    kinds = {
        "html": "text/html",
        "js": "text/javascript",
        "css": "text/css",
        "svg": "image/svg+xml",
        "txt": "text/plain",
    }
    assert answer.headers["content-type"].partition(";")[0] == kinds[name.rpartition(".")[2]]
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_file_is_asked_for_again_and_a_versioned_one_is_not(page: TestClient) -> None:
    for name, keep in (("js/app.js", "no-cache"), ("vendor/htm-3.1.1.js", "public, max-age=31536000, immutable")):
        first = page.get(f"/assets/{name}")
        assert first.headers["cache-control"] == keep
        again = page.get(f"/assets/{name}", headers={"if-none-match": f'"other", W/{first.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"] and again.headers["cache-control"] == keep
        assert page.get(f"/assets/{name}", headers={"if-none-match": '"other"'}).status_code == 200
        assert page.head(f"/assets/{name}").headers["etag"] == first.headers["etag"]


def test_every_vendored_file_is_named_by_its_version_and_has_its_licence() -> None:
    vendored = [Path(name).name for name in FILES if name.startswith("vendor/")]
    for name in vendored:
        if name.endswith((".js", ".css")):
            assert re.search(r"-\d+\.\d+\.\d+\.(js|css)$", name), name
            assert f"LICENSE-{name.partition('-')[0]}.txt" in vendored, name


def test_no_module_loads_anything_from_elsewhere_or_makes_markup_of_text() -> None:
    for name in FILES:
        if name.endswith(".js"):
            text = (FOLDER / name).read_text(encoding="utf-8")
            imported = [address for found in IMPORTS.findall(text) for address in found if address]
            assert all(address.startswith(("./", "../")) for address in imported), name
            if not name.startswith("vendor/"):
                assert (
                    re.findall(r"\.innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
                    == []
                ), name
                assert "https://" not in text and "http://" not in text, name


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../_dashboard.py",
            "..%2f_dashboard.py",
            "%2e%2e/_dashboard.py",
            "js/../../_auth.py",
            "js/..%2f..%2f_auth.py",
        ),
        *(
            "/etc/passwd",
            "%2fetc%2fpasswd",
            "js//app.js",
            "js\\app.js",
            "js",
            "js/",
            "",
            ".",
            "index.html%00",
            "nothing.js",
        ),
        *("vendor/README.md", "js/.app.js", "a/b/c/d/e/f.js", "JS/APP.JS", "ｊｓ/app.js"),
    ],
)
def test_nothing_else_is_served(page: TestClient, name: str) -> None:
    answer = page.get(f"/assets/{name}")
    assert answer.status_code in {401, 404}, name  # 401: what the path comes to is none of ours
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "dashboard"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "away.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "here.txt").write_text("here")
    app = FastAPI()
    install(app)
    app.include_router(dashboard_routes(folder))
    http = TestClient(app)
    assert http.get("/assets/here.txt").text == "here"
    assert http.get("/assets/away.txt").status_code == 404


@pytest.mark.parametrize("path", ["/", "/assets/js/app.js"])
def test_other_hosts_and_other_pages_are_refused_here_too(page: TestClient, path: str) -> None:
    assert page.get(path, headers={"host": "evil.example"}).status_code == 421
    assert page.get(path, headers={"origin": "http://evil.example"}).status_code == 403
    assert page.get(path, headers={"origin": "http://127.0.0.1:8787"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/assets/js/app.js"])
def test_there_is_nothing_to_write(page: TestClient, path: str) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert page.request(method, path).status_code == 405
