"""What every recorded exchange goes through: cleaning, its id, its dialect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepwell.exchange import Found, Request, Response, Unparseable, found, parse, request_entry, response_entry

URL = "https://api.openai.com/v1/chat/completions"
ASKED = Request("POST", URL, [("Content-Type", "application/json")], b'{"model": "m", "messages": []}', 5)
ANSWERED = Response(200, [], b'{"id": "r", "choices": [{"index": 0, "message": {"content": "hi"}}]}', "complete", 6)
SECRET = "sk-canary-7f3a"


def id_of(request: Request | None = ASKED, response: Response = ANSWERED, own_id: str | None = None) -> str:
    return found(request, response, own_id).exchange.id


def test_the_dialect_is_that_of_the_path() -> None:
    made = found(ASKED, ANSWERED)
    assert (made.exchange.dialect, made.exchange.client, made.generation) == ("openai.chat", "import", True)
    assert made.exchange.request.headers == [("content-type", "application/json")]
    assert made.exchange.request_known


@pytest.mark.parametrize("url", ["https://api.openai.com/v1/models", "", "http://[broken/v1/chat/completions"])
def test_another_path_is_no_generation(url: str) -> None:
    made = found(replace(ASKED, url=url), ANSWERED)
    assert (made.exchange.dialect, made.generation) == ("", False)


def test_an_id_follows_from_the_content() -> None:
    ids = [
        id_of(),
        id_of(replace(ASKED, url=URL + "/x")),
        id_of(replace(ASKED, body=b"{}")),
        id_of(replace(ASKED, at_ns=6)),
        id_of(response=replace(ANSWERED, status=201)),
        id_of(response=replace(ANSWERED, body=b"{}")),
        id_of(own_id="mine"),
        id_of(None),
    ]
    assert len(set(ids)) == len(ids)
    assert ids[0] == id_of(replace(ASKED, headers=[("x", "y")]))


def test_where_one_part_ends_and_the_next_begins_counts() -> None:
    a = id_of(replace(ASKED, body=b"ab"), replace(ANSWERED, body=b"c"))
    b = id_of(replace(ASKED, body=b"a"), replace(ANSWERED, body=b"bc"))
    assert a != b


def test_a_name_is_its_own_or_the_derived_one() -> None:
    assert found(ASKED, ANSWERED, "mine").name == "mine"
    assert found(ASKED, ANSWERED).name == id_of()


def test_no_credential_is_kept_and_none_is_in_the_id() -> None:
    names = ("Authorization", "X-Api-Key", "api-key", "x-goog-api-key", "Cookie", "Proxy-Authorization", "x-new-token")
    asked = replace(
        ASKED,
        url=f"https://user:{SECRET}@api.openai.com/v1/chat/completions?key={SECRET}#{SECRET}",
        headers=[(name, SECRET) for name in names],
    )
    answered = replace(ANSWERED, headers=[("Set-Cookie", SECRET)])
    made = found(asked, answered)
    entries = [
        request_entry(made.exchange.id, made.exchange.request, client="import"),
        response_entry(made.exchange.id, made.exchange.response),
    ]
    assert SECRET not in repr((made, entries))
    assert made.exchange.id == id_of()


def test_a_request_without_its_body_is_one_that_nobody_recorded() -> None:
    made = found(replace(ASKED, body=b""), ANSWERED)
    (step,) = parse(made.exchange)
    assert (step.trainable, step.untrainable_reason) == (False, "the request was not recorded")
    assert made.exchange.request.url == URL


def test_an_endpoint_helps_where_the_answer_says_nothing() -> None:
    refused = replace(ANSWERED, status=400, body=b'{"error": {"message": "no", "type": "invalid_request_error"}}')
    made = found(None, refused, endpoint="POST /v1/chat/completions")
    assert [step.status for step in parse(made.exchange)] == ["error"]
    with pytest.raises(Unparseable, match="the request was not recorded, and the answer is of no known API"):
        parse(found(None, refused).exchange)


def test_what_the_answer_says_counts_for_more_than_the_endpoint() -> None:
    made: Found = found(None, ANSWERED, endpoint="POST /v1/messages")
    assert made.exchange.dialect == "openai.chat"
