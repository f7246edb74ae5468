"""An agent on the OpenAI Agents SDK whose model calls are recorded by `sdk.wrap`: no proxy, and no change in the agent.

pip install openai-agents
stepwell up                                      # in one terminal
OPENAI_API_KEY=… python examples/openai_agents.py "What do 3 jars of honey cost?"
"""

from __future__ import annotations

import argparse
import asyncio
import json

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from stepwell import sdk

PRICES = {"honey": 8, "jam": 6}


@function_tool
def price(article: str) -> str:
    """The price of an article in euros."""
    return str(PRICES.get(article, "unknown"))


async def answer(question: str, model: str) -> str:
    """One rollout: each call of the model becomes a step of its trajectory."""
    client = sdk.wrap(AsyncOpenAI())
    agent = Agent(
        name="shop",
        instructions="Answer in one sentence. Look prices up.",
        model=OpenAIChatCompletionsModel(model=model, openai_client=client),
        tools=[price],
    )
    async with sdk.trajectory(prompt=question) as trajectory:
        result = await Runner.run(agent, question, max_turns=5)
        trajectory.reward(1.0 if "24" in str(result.final_output) else 0.0, name="has_24")
    return str(result.final_output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", nargs="?", default="What do 3 jars of honey cost?")
    parser.add_argument("--model", default="gpt-4o-mini")
    options = parser.parse_args()
    set_tracing_disabled(True)
    said = asyncio.run(answer(options.question, options.model))
    print(json.dumps({"answer": said, "acknowledged": sdk.flush(timeout=10).acknowledged}, ensure_ascii=False))


if __name__ == "__main__":
    main()
