"""Chat templates: what they are given, what they may not do, and where the answer lies in what they write."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reader.realise.conftest import CHATML, UNMARKED

from stepwell.errors import InvalidRecord
from stepwell.reader._realise.needs import Refused
from stepwell.reader._realise.template import ChatTemplate, Rendered

pytest.importorskip("jinja2")

TALK = [{"role": "user", "content": "a<b>"}, {"role": "assistant", "content": "c"}]


def rendered(source: str, messages: Any = TALK, **variables: Any) -> Rendered:
    return ChatTemplate(source, **variables).render(messages, None, add_generation_prompt=False)


def test_spans_are_what_is_between_the_tags() -> None:
    found = rendered(CHATML, [*TALK, *TALK])
    assert found.text == rendered(UNMARKED, [*TALK, *TALK]).text
    assert [found.text[begin:end] for begin, end in found.generated] == ["c<|im_end|>", "c<|im_end|>"]
    assert rendered(UNMARKED).generated == ()


def test_the_generation_prompt_is_asked_for() -> None:
    prompt = ChatTemplate(CHATML).render(TALK[:1], None, add_generation_prompt=True)
    assert prompt.text == "<|im_start|>user\na<b><|im_end|>\n<|im_start|>assistant\n"


def test_templates_find_what_they_rely_on() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}{{ m | tojson }}{% endfor %}"
        "{{ strftime_now is defined }}{{ {'b': 1, 'a': 'é'} | tojson(indent=1, sort_keys=true) }}"
    )
    text = rendered(source, bos_token="<s>").text
    assert text == '<s>{"role": "user", "content": "a<b>"}False{\n "a": "é",\n "b": 1\n}'


def test_blocks_leave_no_lines_behind() -> None:
    assert rendered("{% if true %}\n    {% if true %}\nx\n    {% endif %}\n{% endif %}").text == "x\n"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{{ raise_exception('roles must alternate') }}", "refuses it: roles must alternate"),
        ("{{ messages[0].content + 1 }}", "refuses it: can only concatenate"),
        ("{{ nobody.there }}", "'nobody' is undefined"),
        ("{{ messages.__class__.__mro__ }}", "is unsafe"),
        ("{% set _ = messages.append(1) %}", "is unsafe|not safely callable"),
        ("{% for i in range(10000000) %}{% endfor %}", "refuses it: Range too big"),
        ("{{ 1 // 0 }}", "refuses it"),
    ],
)
def test_what_a_template_does_not_take_or_may_not_do_is_refused(source: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        rendered(source)


@pytest.mark.parametrize("change", ["upper", "trim", "replace('e', '')", "reverse | join", "truncate(9, true)"])
def test_marks_that_a_filter_went_over_are_refused(change: str) -> None:
    source = f"{{% set x %}}{{% generation %}} e{{{{ messages[1].content }}}} {{% endgeneration %}}{{% endset %}}{{{{ x | {change} }}}}"
    with pytest.raises(Refused, match="changes what it marked as generated"):
        rendered(source)


def test_marks_that_are_written_out_unchanged_are_kept() -> None:
    source = (
        "{% set x %}{% generation %}e{% endgeneration %}{% endset %}{% macro m() %}<{{ x }}>{% endmacro %}{{ m() }}"
    )
    assert rendered(source).generated == ((1, 2),)


def test_what_is_no_template_is_refused_with_its_line() -> None:
    with pytest.raises(InvalidRecord, match="no chat template: line 2"):
        ChatTemplate("a\n{% if %}")
    with pytest.raises(InvalidRecord, match="not JSON"):
        ChatTemplate("a", x=object())


def test_identity_is_of_text_and_variables() -> None:
    made = [ChatTemplate("a"), ChatTemplate("b"), ChatTemplate("a", x=1), ChatTemplate("a", x=2)]
    assert len({one.identity for one in made}) == 4
    assert ChatTemplate("a", x=1, y=2).identity == ChatTemplate("a", y=2, x=1).identity
