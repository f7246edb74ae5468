"""What of a head is kept: never a credential."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepwell.exchange._clean import clean_url, kept_headers

SECRET = "sk-very-secret-0123456789"


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "Cookie", "Set-Cookie"),
        *("x-amz-security-token", "openai-organization", "openai-project", "x-auth-token", "www-authenticate"),
        *("x-stepwell-token", "x-stepwell-key", "x-stainless-api-key", "x-claude-code-token", "x-sglext-secret"),
        *("x-claude-code-oauth-authorization", "x-ratelimit-key", "x-stepwell-cookie", "x-stepwell-password"),
        *("cf-access-client-secret", "x-csrf-token", "accept ", "accept\n", "content-type-x"),
    ],
)
def test_credentials_and_strangers_are_left_out(name: str) -> None:
    assert kept_headers([(name, SECRET)]) == []


@pytest.mark.parametrize(
    "name",
    [
        *("x-stepwell-trajectory", "x-stepwell-policy-version", "x-stepwell-meta-run_2", "X-Stepwell-Meta-Env.Name"),
        *("session_id", "session-id", "x-session-id", "conversation_id", "thread-id", "x-parent-session-id"),
        *("amz-sdk-request", "x-stainless-retry-count", "x-codex-turn-metadata", "x-claude-code-agent-id"),
    ],
)
def test_what_says_whose_call_it_is_is_kept(name: str) -> None:
    assert kept_headers([(name, "v")]) == [(name.lower(), "v")]


@pytest.mark.parametrize("name", ["x-stepwell-meta-api_key", "x-stepwell-meta-my-token", "x-stepwell-meta-secret"])
def test_a_secret_is_none_of_anybodys_metadata(name: str) -> None:
    assert kept_headers([(name, SECRET)]) == []


def test_what_says_how_to_read_the_exchange_is_kept_in_order() -> None:
    headers = [
        ("Content-Type", "application/json"),
        ("Authorization", SECRET),
        ("content-encoding", "gzip"),
        ("X-Stainless-Retry-Count", "1"),
        ("x-stepwell-trajectory-id", "t"),
        ("X-RateLimit-Remaining-Tokens", "5"),
        ("Idempotency-Key", "k"),
        ("x-request-id", "r"),
        ("x-sglext-return-output-ids", "1"),
        ("Content-Encoding", "br"),
    ]
    kept = kept_headers(headers)
    assert kept == [(name.lower(), value) for name, value in headers if name != "Authorization"]


CREDENTIAL = ["token", "key", "secret", "auth", "authorization", "password", "credential", "credentials", "cookie"]
prefixes = st.sampled_from(
    [
        "",
        "x-",
        "x-stepwell-",
        "x-stainless-",
        "x-claude-code-",
        "x-ratelimit-",
        "x-sglext-",
        "openai-",
        "anthropic-",
        "proxy-",
    ]
)
names = st.text(st.sampled_from("abcdefghijklmnopqrstuvwxyz-"), max_size=12)


@given(prefixes, names, st.sampled_from(CREDENTIAL), st.booleans())
@example("x-stepwell-", "", "token", True)
def test_no_header_named_like_a_credential_is_kept(prefix: str, middle: str, last: str, upper: bool) -> None:
    name = f"{prefix}{middle}{last}"
    if name == "idempotency-key":
        return  # makes a retry recognisable, opens nothing
    assert kept_headers([(name.upper() if upper else name, SECRET)]) == []


@given(st.text(max_size=20))
@example("X-STEPWELL-")
def test_no_header_that_nobody_listed_is_kept(name: str) -> None:
    assert kept_headers([(f"zz{name}", SECRET), (f"{name}\u212a", SECRET)]) == []


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://api.openai.com/v1/chat/completions", "https://api.openai.com/v1/chat/completions"),
        (
            "https://user:pass@host:8443/v1?key=K&api-version=2024&alt=sse#frag",
            "https://host:8443/v1?api-version=2024&alt=sse",
        ),
        ("http://a@b@host/v1", "http://host/v1"),
        ("http://[::1]:80/v1?beta=", "http://[::1]:80/v1?beta="),
        ("/v1/chat?token=x", "/v1/chat"),
        ("http://[broken/v1?key=K", ""),
        ("", ""),
    ],
)
def test_urls_lose_what_may_be_secret(url: str, kept: str) -> None:
    assert clean_url(url) == kept


@given(st.text(max_size=8), st.text(max_size=8))
def test_no_parameter_named_otherwise_is_kept(name: str, user: str) -> None:
    if name not in ("alt", "api-version", "beta"):
        assert SECRET not in clean_url(f"https://h/v1?a=b&zz{name}={SECRET}")
    assert SECRET not in clean_url(f"https://u{user.replace('/', '').replace('?', '').replace('#', '')}:{SECRET}@h/v1")
