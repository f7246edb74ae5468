"""Raw exchanges and what they mean: one folder per API dialect.

Bytes of an HTTP exchange go in, steps come out. Parsing is a pure function of the exchange: no clock, no randomness, no network, so
the same exchange parsed twice, or by a later version, is the same steps. Needs no LanceDB and no mitmproxy.
"""

from stepwell.exchange._attribution import Claim, claim_of
from stepwell.exchange._declared import Declared, declared_of, stamped
from stepwell.exchange._dialect import Context, Dialect, NoStep, Unparseable
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
from stepwell.exchange._recorded.exchanges import found_in_json
from stepwell.exchange._recorded.fields import NotAnExchange
from stepwell.exchange._recorded.found import Found, found
from stepwell.exchange._recorded.har import found_in_har, har_entries
from stepwell.exchange._recorded.sockets import Frame, found_in_socket
from stepwell.exchange._turns import Began, Ended, Said, Turns
from stepwell.exchange._usage import normalised

__all__ = [
    "REQUEST",
    "RESPONSE",
    "Began",
    "Claim",
    "Context",
    "Declared",
    "Decoded",
    "Dialect",
    "End",
    "Ended",
    "Exchange",
    "Found",
    "Frame",
    "NoStep",
    "NotAnExchange",
    "Request",
    "Response",
    "Said",
    "Turns",
    "Unparseable",
    "claim_of",
    "declared_of",
    "decode",
    "dialect_for",
    "dialects",
    "exchange_from",
    "found",
    "found_in_har",
    "found_in_json",
    "found_in_socket",
    "har_entries",
    "normalised",
    "parse",
    "request_entry",
    "response_entry",
    "stamped",
]
