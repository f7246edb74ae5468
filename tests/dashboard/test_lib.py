"""The small parts of the page, each asked in the browser: formats, words made visible, the stream's parser, addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.dashboard.house import House, open_house
from tests.dashboard.visit import Visit


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One for all: nothing here changes what it holds."""
    with open_house(tmp_path_factory.mktemp("house")) as opened:
        yield opened


@pytest.fixture
def ask(visit: Visit) -> Any:
    """Run an expression with a module of the page as `m`."""
    visit.go(signed=False)

    def run(module: str, expression: str, argument: Any = None) -> Any:
        return visit.page.evaluate(
            f"async (a) => {{ const m = await import('/assets/js/lib/{module}.js'); return {expression}; }}", argument
        )

    return run


def test_numbers_and_times(ask: Any) -> None:
    assert ask("format", "[0, 1234, 12345, 1234567, null, undefined, NaN].map(m.num)") == [
        *("0", "1,234", "12.3K", "1.23M", "–", "–", "–"),
    ]
    assert ask("format", "[m.int(1234567), m.int(null), m.bytes(0), m.bytes(1536), m.bytes(8 * 2 ** 30)]") == [
        *("1,234,567", "–", "0 B", "1.5 KiB", "8 GiB"),
    ]
    assert ask("format", "[0.0321, 4.26, 75, 7300, 200000, null].map(m.duration)") == [
        *("32 ms", "4.3 s", "1 min", "2 h", "2 d", "–"),
    ]
    assert ask("format", "[m.signed(0.5), m.signed(-0.25), m.signed(0), m.signed(null), m.signed(1e-9)]") == [
        *("+0.5", "−0.25", "0", "–", "+0"),
    ]
    assert ask("format", "[m.percent(1, 3), m.percent(1, 0), m.time(null), m.time('x'), m.ago(null)]") == [
        *("33.3 %", "–", "–", "–", "–"),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("a\x00b\x1b[31m\x7f\r", "a␀b␛[31m␡␍"),
        ("abc\u202edcba\u2066x\u200f", "abc⟨U+202E⟩dcba⟨U+2066⟩x⟨U+200F⟩"),
        ("zero\u200bwidth\ufeff\u00ad\U000e0041", "zero⟨U+200B⟩width⟨U+FEFF⟩⟨U+00AD⟩⟨U+E0041⟩"),
        ("\x85\u2028", "⟨U+0085⟩⟨U+2028⟩"),
        ("a\u3164b\uffa0c\U000e0100", "a⟨U+3164⟩b⟨U+FFA0⟩c⟨U+E0100⟩"),
        ("عربي 日本語 🙂", "عربي 日本語 🙂"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
def test_what_cannot_be_seen_is_shown(ask: Any, text: str, shown: str) -> None:
    assert ask("format", "m.inert(a)", text) == shown


def test_halves_of_pairs_and_what_is_no_text(ask: Any) -> None:
    assert ask("format", "[m.inert('a\\ud800b'), m.inert({a: 1}), m.inert(null), m.inert(7)]") == [
        *("a⟨U+D800⟩b", '{"a":1}', "", "7"),
    ]
    assert ask("format", "[m.line('a\\nb\\tc'), m.line('x'.repeat(50), 10), m.id('0123456789', 6), m.id(null)]") == [
        *("a b c", "xxxxxxxxx…", "012…89", "–"),
    ]


def test_the_streams_parser_takes_pieces_of_any_size(ask: Any) -> None:
    text = (
        ': hello\nretry: 50\nevent: step\ndata: {"a":1}\nid: x\n\ndata: 1\r\ndata: 2\r\n\r\nevent:e\rdata\r\rid: y\n\n'
    )
    wanted = [
        {"kind": "step", "data": '{"a":1}', "id": "x"},
        {"kind": "message", "data": "1\n2", "id": "x"},
        {"kind": "e", "data": "", "id": "x"},
    ]
    program = """(() => { const said = []; let retry = 0; const take = m.parser((event) => said.push(event), (ms) => (retry = ms));
        for (let i = 0; i < a.text.length; i += a.size) take(a.text.slice(i, i + a.size)); return [said, retry]; })()"""
    for size in (1, 2, 3, 7, 1000):
        assert ask("sse", program, {"text": text, "size": size}) == [wanted, 50], size


def test_addresses_hold_every_id(ask: Any) -> None:
    hard = "run/7 ?#%&<b>\u202e日"
    address = ask("url", "m.href('trajectories', [a], {q: a, none: null, empty: '', no: false, zero: 0})", hard)
    assert ask("url", "m.read('http://x/' + a)", address) == {
        "view": "trajectories",
        "path": [hard],
        "params": {"q": hard, "zero": "0"},
    }
    assert ask("url", "[m.read('http://x/'), m.read('http://x/#/a/%E0%A4%A')]") == [
        {"view": "overview", "path": [], "params": {}},
        {"view": "a", "path": ["%E0%A4%A"], "params": {}},
    ]
    assert ask("api", "m.at`/steps/${a}/tokens`", "run/7 ?") == "/steps/run%2F7%20%3F/tokens"


TEXT = """(async () => {
    const { html, render } = await import("/assets/js/lib/html.js");
    const box = document.body.appendChild(document.createElement("div"));
    box.id = "tried";
    render(html`<${m.Text} text=${a.head + "x".repeat(a.more)} />`, box);
    await new Promise((done) => setTimeout(done, 50));
    return box.querySelector("pre").textContent;
})()"""


def test_ten_million_characters_are_shown_a_piece_at_a_time(ask: Any, visit: Visit) -> None:
    head = "<img src=x onerror='window.hit=1'><script>window.hit=1</script>\u202e\x07"
    begin = ask("text", TEXT, {"head": head, "more": 10_000_000})
    assert begin.startswith("<img src=x onerror='window.hit=1'><script>window.hit=1</script>⟨U+202E⟩␇xxx")
    assert len(begin) < 2_100
    box = visit.page.locator("#tried")
    box.get_by_role("button", name="Show all").click()
    assert len(box.locator("pre").inner_text()) < 20_100
    assert "part 1 of 501" in box.inner_text() and "10,000,065 characters" in box.inner_text()
    box.get_by_role("button", name="Later part").click()
    assert box.locator("pre").inner_text() == "x" * 20_000
    assert visit.page.locator("#tried img, #tried script").count() == 0
    assert visit.page.evaluate("window.hit") is None
