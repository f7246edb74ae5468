"""An ordinary agent on the OpenAI SDK that solves word problems with two tools. It knows nothing of Stepwell.

With OPENAI_API_KEY set:   python examples/unmodified_agent.py --task 0
"""

from __future__ import annotations

import argparse
import ast
import json
import operator
from collections.abc import Callable
from typing import Any

from openai import OpenAI

TASKS = [
    "Mira sells 12 jars of honey and 9 jars of jam at the market. Look up both prices. "
    "How many euros does she take in?",
    "134 pupils and 11 teachers travel to the museum by bus. Look up the seats and the price of a bus. "
    "How many euros do the buses cost in all?",
    "Jürgen paints 6 walls of 15 m² each, with two coats. Look up the coverage and the price of a bucket "
    "of paint. How many euros do the buckets cost?",
    "The night train takes 7 hours 20 minutes, of which it stands still for 35 minutes at the border 🚂. "
    "Look up its speed. How many kilometres does it travel?",
]

SYSTEM = """You are a careful assistant who solves short word problems from everyday life. Work step by step
and say briefly what you are about to do before you do it.

You have two tools. `lookup` knows facts that the problem leaves out, such as prices, sizes and speeds; ask for one
fact at a time, by a short key of two or three words in English. `calculator` evaluates an arithmetic expression with
numbers, parentheses and the signs + - * and /; it knows no functions, no variables and no units. Never do arithmetic
in your head when the calculator can do it, and never guess a fact that you can look up. You may call several tools in
one turn if they do not depend on each other. When a tool reports an error, read it, mend your call and try again.

Think about what the numbers stand for: people and buckets come in whole numbers, so round up where a part of one will
not do, and leave time that does not count out of the sum. When you know the result, explain it in one sentence, then
finish with a line of the form `Answer: 42`, holding the bare number without unit or thousands separator. That line is
read by a program, so write nothing after it."""

FACTS = {"honey price": "8 € a jar", "jam price": "6 € a jar", "bus seats": "49 seats", "bus price": "310 € a day",
         "paint coverage": "40 m² a bucket", "paint price": "38 € a bucket", "night train speed": "120 km/h"}  # fmt: skip
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def evaluate(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return float(OPERATORS[type(op)](evaluate(left), evaluate(right)))
    raise ValueError(f"cannot evaluate {ast.unparse(node)!r}")


def calculator(expression: str) -> str:
    try:
        return f"{evaluate(ast.parse(expression, mode='eval').body):.10g}"
    except (SyntaxError, ValueError, ZeroDivisionError) as error:
        return f"error: {error}"


def lookup(key: str) -> str:
    return FACTS.get(key, f"error: nothing is known about {key!r}; known keys: {', '.join(FACTS)}")


def schema(name: str, description: str, argument: str) -> dict[str, Any]:
    properties = {argument: {"type": "string"}}
    parameters = {"type": "object", "properties": properties, "required": [argument], "additionalProperties": False}
    function = {"name": name, "description": description, "parameters": parameters, "strict": True}
    return {"type": "function", "function": function}


TOOLS = [
    schema("calculator", "Evaluate an arithmetic expression, for example (3 + 4) * 2.5", "expression"),
    schema("lookup", "Look up a fact that the problem leaves out, for example: bus price", "key"),
]
RUN: dict[str, Callable[..., str]] = {"calculator": calculator, "lookup": lookup}

ECHO: Any = {"role": True, "content": True,
             "tool_calls": {"__all__": {"id": True, "type": True, "function": {"name", "arguments"}}}}  # fmt: skip


def ask(client: OpenAI, stream: bool, **request: Any) -> Any:
    """One call to the model, streamed or not: the assistant's message."""
    if stream:
        with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as events:
            return events.get_final_completion().choices[0].message
    return client.chat.completions.create(**request).choices[0].message


def solve(client: OpenAI, model: str, question: str, seed: int) -> tuple[str, int]:
    """Let the model work on a question with the tools: its answer, and the calls that took."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    common = {"model": model, "messages": messages, "tools": TOOLS, "temperature": 1.0, "seed": seed}
    for turn in range(1, 11):
        message = ask(client, stream=turn % 2 == 0, **common)
        if not message.tool_calls:
            return (message.content or "").rpartition("Answer:")[2].strip(), turn
        messages.append(message.model_dump(include=ECHO))
        for call in messages[-1]["tool_calls"]:
            result = RUN[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return "", 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", type=int, default=0, choices=range(len(TASKS)))
    parser.add_argument("--task-text", help="a problem of your own")
    parser.add_argument("--model", default="gpt-4o-mini")
    parser.add_argument("--seed", type=int, default=0, help="another seed is another attempt")
    options = parser.parse_args()
    answer, turns = solve(OpenAI(), options.model, options.task_text or TASKS[options.task], options.seed)
    print(json.dumps({"task": options.task_text or options.task, "answer": answer, "turns": turns}, ensure_ascii=False))


if __name__ == "__main__":
    main()
