"""Chat templates as models bring them: Jinja in a sandbox, with `{% generation %}` around what the model says."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from stepwell.errors import InvalidRecord
from stepwell.reader._realise.needs import Refused, needed

_BEGIN, _END = (f"\x02{side}{uuid.uuid4().hex}\x03" for side in "be")
"""Around what is generated, while it is rendered: nothing that anybody wrote contains them."""
_MARKING = "_stepwell_marking"
_FAILURES = (TypeError, ValueError, LookupError, ArithmeticError, RecursionError, AttributeError)
"""What templates raise beside Jinja's own errors, when they meet what they were not made for."""


@dataclass(frozen=True, slots=True)
class Rendered:
    text: str
    generated: tuple[tuple[int, int], ...]
    """Where in `text`, in characters, the spans between `{% generation %}` and `{% endgeneration %}` lie; ascending."""


class ChatTemplate:
    """A chat template, compiled once.

    It has what templates of open models rely on: `messages`, `tools`, `add_generation_prompt`, `raise_exception`, `tojson`, loop
    controls, blocks trimmed. It has no clock (`strftime_now` is undefined): the same step gives the same ids on every day.
    """

    def __init__(self, source: str, **variables: Any) -> None:
        """
        Args:
            source: The template's text, as in `chat_template` of `tokenizer_config.json` or in `chat_template.jinja`.
            variables: What it is given besides: `bos_token`, `eos_token`, `enable_thinking`, `date_string`, … JSON values.

        Raises:
            InvalidRecord: it is no Jinja template, or a variable is no JSON.
            MissingExtra: jinja2 is not installed.
        """
        jinja = needed("jinja2")
        self.source = source
        self.variables = variables
        try:
            self.identity = json.dumps([source, variables], sort_keys=True).encode()
        except (TypeError, ValueError) as error:
            raise InvalidRecord("variables", f"of the chat template are not JSON: {error}") from error
        try:
            self._template = _environment().from_string(source)
        except jinja.TemplateSyntaxError as error:
            raise InvalidRecord("template", f"is no chat template: line {error.lineno}: {error.message}") from error
        self._refusals = (jinja.TemplateError, *_FAILURES)
        self.marks = "endgeneration" in source
        """Whether it says what is generated."""

    def render(self, messages: list[dict[str, Any]], tools: Any, *, add_generation_prompt: bool) -> Rendered:
        """The text of a conversation.

        Raises:
            Refused: the template raises something, or does not let its `{% generation %}` be told from its text.
        """
        given = {**self.variables, "messages": messages, "tools": tools, "add_generation_prompt": add_generation_prompt}
        plain = self._text(given)
        if not self.marks:
            return Rendered(plain, ())
        text, spans = _without_marks(self._text({**given, _MARKING: True}))
        if text != plain:  # a filter went over what was marked: the spans would not be those of the text
            raise Refused("the chat template changes what it marked as generated")
        return Rendered(text, spans)

    def _text(self, given: dict[str, Any]) -> str:
        try:
            return str(self._template.render(given))
        except self._refusals as error:
            raise Refused(f"the chat template refuses it: {error}") from error


def _without_marks(marked: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    first, *others = marked.split(_BEGIN)
    pieces, spans, length = [first], [], len(first)
    for other in others:
        inside, mark, after = other.partition(_END)
        if not mark:
            raise Refused("the chat template changes what it marked as generated")
        pieces += [inside, after]
        spans.append((length, length + len(inside)))
        length += len(inside) + len(after)
    return "".join(pieces), tuple(spans)


@cache
def _environment() -> Any:
    sandbox, ext, nodes = needed("jinja2.sandbox"), needed("jinja2.ext"), needed("jinja2.nodes")

    class Generation(ext.Extension):  # type: ignore[misc, name-defined]  # its base is known at run time only
        """`{% generation %}…{% endgeneration %}`: renders what is between them, and marks it where marks are asked for."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            call = self.call_method("_marked", [nodes.ContextReference()])
            return nodes.CallBlock(call, [], [], body).set_lineno(line)

        def _marked(self, context: Any, caller: Any) -> str:
            return f"{_BEGIN}{caller()}{_END}" if context.get(_MARKING) else caller()

    made = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols]
    )
    made.filters["tojson"] = _tojson
    made.globals["raise_exception"] = _raise_exception
    return made


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own escapes for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise needed("jinja2").TemplateError(message)
