from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli import main
from stepwell.gateway import Tokens
from stepwell.home import home_folder

DAY = 86_400


def said(capfd: Any, *arguments: str) -> tuple[str, str]:
    capfd.readouterr()
    assert main(["token", *arguments]) == 0
    out, err = capfd.readouterr()
    return out, err


def test_from_creation_to_revocation(place: Path, capfd: Any) -> None:
    out, err = said(
        capfd, "create", "--scope", "ingest", "-s", "read", "--project", "shop", "--expires", "90d", "--note", "x"
    )
    assert re.fullmatch(
        r"stepwell_[0-9a-f]{12}_[A-Za-z0-9_-]{43}\n", out
    )  # nothing else: TOKEN=$(stepwell token create …)
    [token] = Tokens(home_folder()).all()
    assert (sorted(token.scopes), token.project, token.note) == (["ingest", "read"], "shop", "x")
    assert token.expires_at is not None and token.expires_at - token.created_at == 90 * DAY
    assert token.id in err and "not shown again" in err and out.strip() not in err

    listed, _ = said(capfd, "list")
    assert token.id in listed and "ingest read" in listed and "shop" in listed
    as_json, _ = said(capfd, "list", "--json")
    [entry] = json.loads(as_json)
    assert entry["scopes"] == ["ingest", "read"] and entry["used_at"] is None and entry["expires_at"].endswith("+00:00")
    for shown in (listed, as_json):
        assert out.strip().rsplit("_", 1)[1] not in shown and token.digest.hex() not in shown

    assert said(capfd, "revoke", token.id)[0] == f"revoked {token.id}\n"
    assert Tokens(home_folder()).all() == []
    assert json.loads(said(capfd, "list", "--json")[0]) == []


@pytest.mark.usefixtures("place")
def test_as_json(capfd: Any) -> None:
    made = json.loads(said(capfd, "create", "-s", "admin", "--json")[0])
    assert made["token"].startswith(f"stepwell_{made['id']}_") and made["expires_at"] is None
    assert "(0 rows)" not in said(capfd, "list")[0]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["create", "-s", "root"], 2, "none of ingest, read, curate, admin"),
        (["create", "-s", "read", "--expires", "soon"], 2, "--expires 'soon'"),
        (["create", "-s", "read", "--expires", "0d"], 2, "--expires '0d'"),
        (["create", "-s", "read", "--expires", "999999w"], 2, "hundred years"),
        (["create", "-s", "read", "--project", "a b"], 2, "project 'a b'"),
        (["revoke", "nope"], 1, "there is no token nope"),
    ],
)
def test_mistakes_are_one_line(capfd: Any, arguments: list[str], code: int, why: str) -> None:
    assert main(["token", *arguments]) == code
    out, error = capfd.readouterr()
    assert out == "" and why in error and len(error.splitlines()) == 1
    assert Tokens(home_folder()).all() == []


@pytest.mark.usefixtures("place")
def test_a_token_without_a_scope_is_not_made(capfd: Any) -> None:
    assert main(["token", "create"]) == 2
    assert "--scope" in capfd.readouterr().err
