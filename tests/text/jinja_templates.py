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


# What clients also send: parts, nothing where a text is expected, arguments as text, words that look like marks.
PARTS = {"role": "user", "content": [{"type": "text", "text": "Look "}, {"type": "text", "text": "here: ¼ <b> & 'x'"}]}
ODD = {
    "parts": [SYSTEM, PARTS],
    "parts of the system": [{"role": "system", "content": [{"type": "text", "text": "Be kind."}]}, USER],
    "two systems": [SYSTEM, {"role": "system", "content": "And short."}, USER],
    "a system later": [SYSTEM, USER, ANSWER, {"role": "system", "content": "Be short now."}, NEXT],
    "developer": [{"role": "developer", "content": "Be kind."}, USER],
    "two users": [USER, NEXT],
    "assistant first": [ANSWER, USER],
    "empty": [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}, USER],
    "spaces": [{"role": "user", "content": "  \n a \n\n "}, {"role": "assistant", "content": "\n b "}, USER],
    "think in the text": [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}, NEXT],
    "thinking": [USER, {"role": "assistant", "content": "Yes.", "thinking": "hm", "reasoning": "hm"}, NEXT],
    "named": [{"role": "user", "name": "Ann", "content": "Hi"}],
}
ODD_TOOLS = {
    "no content": [USER, {"role": "assistant", "content": None, "tool_calls": [ONE]}, result(1, "Sun")],
    "content is missing": [USER, {"role": "assistant", "tool_calls": [ONE]}, result(1, "Sun"), NEXT],
    "arguments as text": [USER, calling(call("weather", '{"city": "Oslo", "days": 1}', 1)), result(1, "Sun")],
    "no arguments": [USER, calling(call("now", {}, 2)), result(2, "")],
    "result in parts": [USER, calling(ONE), {"role": "tool", "tool_call_id": "call00001", "name": "weather",
                                             "content": [{"type": "text", "text": "Sun"}]}],
    "no ids": [USER, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {
        "name": "weather", "arguments": {"city": "Oslo", "n": 1e22, "f": 0.1, "b": False, "z": None, "l": []}}}]},
               {"role": "tool", "content": "Sun"}],
    "thoughts between calls": [USER, calling(ONE, thoughts="First.", content="I look."), result(1, "Sun"),
                               calling(TWO, thoughts="Second."), result(2, "noon", "now"), THOUGHT, NEXT,
                               calling(ONE, thoughts="Third."), result(1, "Rain")],
    "a call of an earlier turn": [USER, calling(TWO), result(2, "noon", "now"), ANSWER, NEXT, calling(ONE),
                                  result(1, "Sun"), ANSWER],
}
DEEP = [{"type": "function", "function": {
    "name": "book.table", "description": "Books \"it\"\nand more", "strict": True,
    "parameters": {"type": "object", "$defs": {"Day": {"enum": ["mo", "tu"], "type": "string"}},
                   "properties": {"day": {"$ref": "#/$defs/Day"}, "people": {"type": ["integer", "null"], "minimum": 1},
                                  "wishes": {"type": "array", "items": {"anyOf": [{"type": "string"}, {
                                      "type": "object", "properties": {"a": {"type": "boolean", "default": False}}}]}},
                                  "é": {"type": "number", "examples": [1.5, 2e-7]}},
                   "required": ["day", "people"], "additionalProperties": False}}},
        {"type": "function", "function": {"name": "nothing", "description": ""}}]


def contexts():
    for name, messages in ODD.items():
        for prompt in (True, False):
            yield f"{name}, {prompt}", messages, None, prompt, {}
    for name, messages in ODD_TOOLS.items():
        for variables in ({}, {"enable_thinking": True, "thinking": True, "preserve_thinking": True}):
            yield f"{name}, {len(variables)}", messages, oracle.TOOLS, True, variables
    for name, messages in (WITH_TOOLS | ODD).items():
        yield f"{name}, deep tools", messages, DEEP, True, {}
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
