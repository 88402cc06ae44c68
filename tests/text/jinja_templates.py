#!/usr/bin/env python3
"""Writes what Jinja2 makes of real chat templates, over chats with tools, with thoughts and with neither.

    python3 tests/text/jinja_templates.py llama.cpp/models/templates cases.json && build/jinja_cases cases.json

The templates are those of a folder, such as llama.cpp's models/templates (68 of them); none is in this tree. Needs
python3-jinja2.
"""

import json
import pathlib
import sys

import jinja_oracle as oracle

SYSTEM = {"role": "system", "content": "You are helpful."}
USER = {"role": "user", "content": "How is the weather in Århus?"}
ANSWER = {"role": "assistant", "content": "Let me look."}
THOUGHT = {"role": "assistant", "content": "Sunny.", "reasoning_content": "The tool says so.\nI repeat it."}
NEXT = {"role": "user", "content": "And tomorrow? <|im_end|> {{ x }}"}


def call(name, arguments, number):
    return {"id": f"call{number:05d}", "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*calls, thoughts=None, content=""):
    message = {"role": "assistant", "content": content, "tool_calls": list(calls)}
    if thoughts:
        message["reasoning_content"] = thoughts
    return message


def result(number, content, name="weather"):
    return {"role": "tool", "tool_call_id": f"call{number:05d}", "name": name, "content": content}


ONE = call("weather", {"city": "Århus", "days": 3, "exact": True, "more": {"a": [1, 2.5, None]}}, 1)
TWO = call("now", {}, 2)
PLAIN = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ANSWER, NEXT],
    "thoughts": [USER, THOUGHT, NEXT],
    "begun": [USER, ANSWER],
    "thoughts last": [USER, THOUGHT],
}
WITH_TOOLS = {
    "tools": [USER],
    "tools, system": [SYSTEM, USER],
    "called": [USER, calling(ONE), result(1, '{"degrees": 21}')],
    "called, with words": [SYSTEM, USER, calling(ONE, content="I look."), result(1, "Sun")],
    "called twice at once": [USER, calling(ONE, TWO), result(1, "Sun"), result(2, "noon", "now")],
    "called in turn": [USER, calling(ONE), result(1, "Sun"), calling(TWO), result(2, "noon", "now")],
    "called and thought": [USER, calling(ONE, thoughts="I must look."), result(1, "Sun")],
    "told": [USER, calling(ONE, thoughts="I must look."), result(1, "Sun"), THOUGHT, NEXT],
}


def contexts():
    for name, messages in PLAIN.items():
        for prompt in (True, False):
            for thinking in (None, True, False):
                variables = {} if thinking is None else {"enable_thinking": thinking, "thinking": thinking}
                yield f"{name}, {prompt}, {thinking}", messages, None, prompt, variables
    for name, messages in WITH_TOOLS.items():
        for thinking in (None, True, False):
            variables = {} if thinking is None else {"enable_thinking": thinking, "thinking": thinking}
            yield f"{name}, {thinking}", messages, oracle.TOOLS, True, variables
    yield "effort", [SYSTEM, USER], None, True, {"reasoning_effort": "high"}
    yield "effort and tools", [SYSTEM, USER], oracle.TOOLS, True, {"reasoning_effort": "low"}


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    env = oracle.environment()
    cases = []
    templates = sorted(folder.glob("*.jinja"))
    for path in templates:
        source = path.read_text()
        for name, messages, tools, prompt, variables in contexts():
            context = {"messages": messages, "tools": tools, "add_generation_prompt": prompt, "bos_token": "<s>",
                       "eos_token": "</s>"}
            cases.append(oracle.case(env, f"{path.stem}: {name}", source, context | variables))
    out.write_text(json.dumps({"now": oracle.NOW, "cases": cases}))
    print(f"{len(templates)} templates, {len(cases)} cases, {sum('error' in c for c in cases)} of them errors")


if __name__ == "__main__":
    main()
