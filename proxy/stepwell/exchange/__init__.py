"""Raw exchanges and what they mean: one file per API dialect.

Bytes of an HTTP exchange go in, steps come out. Parsing is a pure function of the exchange: no clock, no randomness, no network, so
the same exchange parsed twice, or by a later version, is the same steps. Needs no LanceDB and no mitmproxy.
"""

from stepwell.exchange._dialect import Dialect, Unparseable
from stepwell.exchange._dialects import dialect_for, dialects, parse
from stepwell.exchange._encoding import Decoded, decode
from stepwell.exchange._raw import (
    REQUEST,
    RESPONSE,
    End,
    Exchange,
    Request,
    Response,
    exchange_from,
    request_entry,
    response_entry,
)

__all__ = [
    "REQUEST",
    "RESPONSE",
    "Decoded",
    "Dialect",
    "End",
    "Exchange",
    "Request",
    "Response",
    "Unparseable",
    "decode",
    "dialect_for",
    "dialects",
    "exchange_from",
    "parse",
    "request_entry",
    "response_entry",
]
