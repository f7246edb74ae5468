"""A recorded exchange, whatever file it was in: cleaned as traffic is, named by its content, and of a dialect or of none."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from stepwell.exchange._clean import clean_url, kept_headers
from stepwell.exchange._dialects import dialect_for
from stepwell.exchange._raw import Exchange, Request, Response
from stepwell.exchange._recorded.answer import least_body, least_request

UNRECOGNISED = "unrecognised"
"""Stands for the dialect of an answer of no known API, to a request that was not recorded."""


@dataclass(frozen=True, slots=True)
class Found:
    """One exchange of a recording."""

    exchange: Exchange
    """Its id follows from its content, so that the same recording imported again is the same exchange."""
    own_id: str | None = None
    """The id that the recording gives it."""

    @property
    def name(self) -> str:
        """What to call it: its own id where it has one."""
        return self.own_id or self.exchange.id

    @property
    def generation(self) -> bool:
        """Whether it is a call of a model at all."""
        return bool(self.exchange.dialect)


def found(request: Request | None, response: Response, own_id: str | None = None, endpoint: str = "") -> Found:
    """The exchange of a request (None: not recorded) and its answer. No credential is in it, nor in its id.

    `endpoint` (`POST /v1/messages`) counts where nobody recorded the request and the answer does not say what it is.
    """
    answered = replace(response, headers=kept_headers(response.headers))
    asked = request and replace(request, url=clean_url(request.url), headers=kept_headers(request.headers))
    exchange_id = _content_id(asked, answered, own_id)
    if asked is None:
        return Found(_answer_only(exchange_id, answered, endpoint), own_id)
    path = path_of(asked)
    dialect, known = dialect_for(asked.method, path), True
    if dialect is not None and not asked.body and not asked.truncated:
        asked, known = replace(asked, body=least_body(asked.method, path)), False
    name = dialect.name if dialect is not None else ""
    return Found(Exchange(exchange_id, name, asked, answered, client="import", request_known=known), own_id)


def path_of(request: Request) -> str:
    """The path of its URL, which must be one (`clean_url` makes it so)."""
    return urlsplit(request.url).path


def _answer_only(exchange_id: str, response: Response, endpoint: str) -> Exchange:
    path, body = least_request(response) or (endpoint.partition(" ")[2], b"")
    dialect = dialect_for("POST", path)
    if dialect is None:
        request = Request("POST", "", [], b"", 0)
        return Exchange(exchange_id, UNRECOGNISED, request, response, client="import", request_known=False)
    request = Request("POST", path, [], body or least_body("POST", path), 0)
    return Exchange(exchange_id, dialect.name, request, response, client="import", request_known=False)


def _content_id(request: Request | None, response: Response, own_id: str | None) -> str:
    asked = (request.method, request.url, str(request.at_ns)) if request else ("", "", "")
    digest = hashlib.blake2b(digest_size=16)
    for text in (own_id or "", *asked, str(response.status)):
        _feed(digest, text.encode(errors="replace"))
    _feed(digest, request.body if request else b"")
    _feed(digest, response.body)
    return f"import-{digest.hexdigest()}"


def _feed(digest: hashlib.blake2b, part: bytes) -> None:
    digest.update(len(part).to_bytes(8, "big"))  # where one part ends and the next begins
    digest.update(part)
