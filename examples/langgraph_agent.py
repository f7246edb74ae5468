"""A LangGraph agent whose model calls are recorded by `sdk.wrap`: no proxy, and no change in the graph.

pip install langgraph langchain-openai
stepwell up                                      # in one terminal
OPENAI_API_KEY=… python examples/langgraph_agent.py "What do 3 jars of honey cost?"
"""

from __future__ import annotations

import argparse
import json

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from stepwell import sdk

PRICES = {"honey": 8, "jam": 6}


def price(article: str) -> str:
    """The price of an article in euros."""
    return str(PRICES.get(article, "unknown"))


def answer(question: str, model: str) -> str:
    """One rollout: each call of the model becomes a step of its trajectory."""
    tools = [StructuredTool.from_function(price)]
    chat = ChatOpenAI(model=model)
    sdk.wrap(chat.root_client)
    bound = chat.bind_tools(tools)

    def ask(state: MessagesState) -> MessagesState:
        return {"messages": [bound.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition)
    graph.add_edge("tools", "ask")
    told: MessagesState = {
        "messages": [SystemMessage("Answer in one sentence. Look prices up."), HumanMessage(question)]
    }
    with sdk.trajectory(prompt=question) as trajectory:
        said = str(graph.compile().invoke(told)["messages"][-1].content)
        trajectory.reward(1.0 if "24" in said else 0.0, name="has_24")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", nargs="?", default="What do 3 jars of honey cost?")
    parser.add_argument("--model", default="gpt-4o-mini")
    options = parser.parse_args()
    said = answer(options.question, options.model)
    print(json.dumps({"answer": said, "acknowledged": sdk.flush(timeout=10).acknowledged}, ensure_ascii=False))


if __name__ == "__main__":
    main()
