"""No input ends or stalls the process: JSON that is deep, wide or odd, and numbers at the edge."""
import json

from attack import Attack, Crowd, Failure, check, check_health, health_times, ms

USER = [{"role": "user", "content": "hi"}]


def deep(depth):
    return '{"a":' * depth + "1" + "}" * depth


def wide(count):
    return "[" + ",".join(["{}"] * count) + "]"


def chat(**more):
    return {"messages": USER, "max_tokens": 1, **more}


def with_call(arguments):
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return chat(messages=[*USER, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "x"}])


def items_with_call(arguments):
    return {"max_output_tokens": 1, "input": [
        {"role": "user", "content": "hi"}, {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments},
        {"type": "function_call_output", "call_id": "c", "output": "x"}]}


def places(text):
    """(name, path, body) for every place where a client may put JSON of its own: in the body, or as text inside it.
    Bodies are texts: JSON this deep cannot be a Python value."""
    def body(value, mark="@@"):
        return json.dumps(value).replace(json.dumps(mark), text)

    tool = {"type": "function", "function": {"name": "f", "parameters": "@@"}}
    tool_use = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": "@@"}]}
    return [
        ("responses: arguments", "/v1/responses", json.dumps(items_with_call(text))),
        ("input_tokens: arguments", "/v1/responses/input_tokens", json.dumps(items_with_call(text))),
        ("chat: arguments", "/v1/chat/completions", json.dumps(with_call(text))),
        ("chat: guided_json text", "/v1/chat/completions", json.dumps(chat(guided_json=text))),
        ("completions: guided_json text", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 1, "guided_json": text})),
        ("chat: unknown field", "/v1/chat/completions", body(chat(x="@@"))),
        ("chat: metadata", "/v1/chat/completions", body(chat(metadata="@@"))),
        ("chat: messages", "/v1/chat/completions", body({"messages": "@@", "max_tokens": 1})),
        ("chat: content", "/v1/chat/completions", body(chat(messages=[{"role": "user", "content": "@@"}]))),
        ("chat: tool parameters", "/v1/chat/completions", body(chat(tools=[tool], tool_choice="required"))),
        ("chat: schema", "/v1/chat/completions",
         body(chat(response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": {"enum": "@@"}}}))),
        ("chat: logit_bias", "/v1/chat/completions", body(chat(logit_bias="@@"))),
        ("chat: stop", "/v1/chat/completions", body(chat(stop="@@"))),
        ("chat: kv", "/v1/chat/completions", body(chat(kv="@@"))),
        ("chat: template kwargs", "/v1/chat/completions", body(chat(chat_template_kwargs={"x": "@@"}))),
        ("responses: input", "/v1/responses", body({"input": "@@", "max_output_tokens": 1})),
        ("responses: metadata", "/v1/responses", body({"input": "a", "metadata": "@@", "max_output_tokens": 1})),
        ("responses: text format", "/v1/responses", body({"input": "a", "max_output_tokens": 1, "text": {
            "format": {"type": "json_schema", "name": "s", "schema": "@@"}}})),
        ("messages: tool input", "/v1/messages", body({"messages": [*USER, tool_use], "max_tokens": 1})),
        ("messages: system", "/v1/messages", body({"messages": USER, "system": "@@", "max_tokens": 1})),
        ("count_tokens: tools", "/v1/messages/count_tokens", body({"messages": USER, "tools": [{"name": "f", "input_schema": "@@"}]})),
        ("ollama: format", "/api/chat", body({"messages": USER, "format": "@@", "stream": False, "options": {"num_predict": 1}})),
        ("ollama: options", "/api/generate", body({"prompt": "a", "options": "@@", "stream": False})),
        ("apply-template", "/apply-template", body({"messages": USER, "tools": "@@"})),
        ("tokenize", "/tokenize", body({"content": "@@"})),
    ]


def nested_json(lab):
    """Depth may be refused or, where only a model reads it, taken for text. It never ends the process."""
    with lab.server() as server:
        for depth in lab.of([100_000], [1_000, 20_000, 100_000, 1_000_000]):
            for name, path, body in places(deep(depth)):
                try:
                    reply = server.post(path, body)
                except OSError as error:
                    raise Failure(f"{name}, {depth} deep, {len(body) >> 10} KiB: {type(error).__name__}") from error
                check(reply.status < 500, f"{name}, {depth} deep: {reply.says()}")
        return f"{len(places('1'))} places, depth {depth:,}"


def many_objects(lab):
    """Reading a body takes time in proportion to its bytes, whatever is in it, and nobody else waits for it."""
    count = lab.of(100_000, 300_000)
    with lab.server() as server:
        slowest = 0
        for name, path, body in places(wide(count)):
            seconds = server.post(path, body, timeout=20).seconds
            slowest = max(slowest, seconds)
            check(seconds < 1.5 + count / 200_000, f"{name}: {count:,} objects, {len(body) >> 10} KiB, took {seconds:.1f} s")
        body = json.dumps(chat(x=[{}] * 2 * count))
        with Crowd(2, lambda i, turn: server.post("/v1/chat/completions", body, timeout=60)):
            said = check_health(health_times(server, lab.of(2, 6)))
        return f"{count:,} objects within {ms(slowest)} in each of {len(places('1'))} places; beside 2 clients {said}"


def wide_relatives(lab):
    """Other shapes whose work may not be in proportion: many keys, long names, many small messages, parts, tools, stops."""
    n = lab.of(5_000, 100_000)
    part = {"type": "text", "text": "a"}
    bodies = {
        "objects in an object": ("/v1/chat/completions", chat(x={str(i): {} for i in range(n)})),
        "keys of a message": ("/v1/chat/completions", chat(messages=[{"role": "user", "content": "a", **{str(i): i for i in range(n)}}])),
        "messages": ("/v1/chat/completions", chat(messages=USER * n)),
        "content parts": ("/v1/chat/completions", chat(messages=[{"role": "user", "content": [part] * n}])),
        "tool calls": ("/v1/chat/completions", chat(messages=[*USER, {"role": "assistant", "tool_calls": [
            {"id": str(i), "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in range(n)]}])),
        "tools": ("/v1/chat/completions", chat(tools=[
            {"type": "function", "function": {"name": f"f{i}", "parameters": {}}} for i in range(n)], tool_choice="required")),
        "anthropic blocks": ("/v1/messages", {"messages": [{"role": "user", "content": [part] * n}], "max_tokens": 1}),
        "anthropic system": ("/v1/messages", {"messages": USER, "system": [part] * n, "max_tokens": 1}),
        "breakpoints": ("/v1/chat/completions", chat(messages=[{"role": "user", "content": [
            {**part, "prompt_cache_breakpoint": {"mode": "explicit"}}] * n}])),
        "response items": ("/v1/responses", {"input": [{"role": "user", "content": "a"}] * n, "max_output_tokens": 1}),
        "prompts": ("/v1/completions", {"prompt": ["a"] * n, "max_tokens": 1}),
        "stop ids": ("/v1/completions", {"prompt": "a", "stop_token_ids": list(range(n)), "max_tokens": 1}),
        "ids out of range": ("/v1/completions", {"prompt": [10**9] * n, "max_tokens": 1}),
        "enum": ("/v1/chat/completions", chat(guided_json={"enum": [f"v{i}" for i in range(n)]})),
        "anyOf": ("/v1/chat/completions", chat(guided_json={"anyOf": [{"const": i} for i in range(n)]})),
        "required": ("/v1/chat/completions", chat(guided_json={"type": "object", "required": [str(i) for i in range(n)]})),
        "optional properties": ("/v1/chat/completions", chat(guided_json={"type": "object", "properties": {
            str(i): {"type": "integer"} for i in range(n)}})),
        "kv settings": ("/v1/completions", {"prompt": "a", "max_tokens": 1, "kv": ", ".join(f"{i}:int8" for i in range(n))}),
        "escapes": ("/v1/completions", '{"max_tokens":1,"prompt":"' + "\\u0061" * n + '"}'),
        "duplicate keys": ("/v1/completions", '{"prompt":"a",' + '"max_tokens":1,' * n + '"n":1}'),
        "detokenize": ("/detokenize", {"tokens": [5] * n}),
        "system turns": ("/apply-template", {"messages": [{"role": "system", "content": "a"}] * n}),
    }
    with lab.server() as server:
        slowest = ("", 0)
        for name, (path, body) in bodies.items():
            reply = server.post(path, body, timeout=30)
            check(reply.status < 500, f"{name}: {reply.says()}")
            check(reply.seconds < 3 + n / 50_000, f"{n:,} {name} took {reply.seconds:.1f} s")
            slowest = max(slowest, (name, reply.seconds), key=lambda pair: pair[1])
        return f"{len(bodies)} shapes of {n:,}; the slowest, {slowest[0]}, in {ms(slowest[1])}"


def tiny_temperatures(lab):
    """Towards 0 a temperature comes to greedy choice, not to infinity."""
    with lab.server() as server:
        def text(**more):
            body = {"prompt": "Once upon a time", "max_tokens": 12, "seed": 1, **more}
            return server.post("/v1/completions", json.dumps(body)).json["choices"][0]["text"]

        greedy = text(temperature=0)
        tried = [1e-3, 1e-6, 1e-7, 1e-20, 1e-30, 1e-37, 1e-38, 1e-39, 1e-45, 1e-46, 1e-300, 5e-324]
        for temperature in tried:
            said = text(temperature=temperature)
            check(said == greedy, f"temperature {temperature}: {said!r} instead of {greedy!r}")
        edge = [{"top_p": 1e-38}, {"min_p": 1.0}, {"top_k": 1}, {"top_p": 0}, {"temperature": 1e-30, "repetition_penalty": 1}]
        for more in edge:
            said = text(**{"temperature": 0.7, **more})
            check(said == greedy, f"{more}: {said!r} instead of {greedy!r}")
        return f"{len(tried) + len(edge)} settings give the greedy text"


def echoes(lab):
    """A refusal is short, however long what it refuses."""
    long = "A" * 1_000_000
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    bodies = [
        ("bad UTF-8", "/v1/completions", b'{"prompt":"' + b"\xff" * 1_000_000 + b'"}'),
        ("no JSON", "/v1/completions", long),
        ("open text", "/v1/chat/completions", '{"x":"' + long),
        ("kv", "/v1/completions", {"prompt": "a", "max_tokens": 1, "kv": long}),
        ("kv with commas", "/v1/completions", {"prompt": "a", "max_tokens": 1, "kv": "f16, " + long + "=1"}),
        ("kv value", "/v1/completions", {"prompt": "a", "max_tokens": 1, "kv": "window=" + long}),
        ("kv key", "/v1/completions", {"prompt": "a", "max_tokens": 1, "kv": {long: "x"}}),
        ("kv key and type", "/v1/completions", {"prompt": "a", "max_tokens": 1, "kv": {long: []}}),
        ("logit_bias key", "/v1/completions", {"prompt": "a", "max_tokens": 1, "logit_bias": {long: 1}}),
        ("logit_bias value", "/v1/completions", {"prompt": "a", "max_tokens": 1, "logit_bias": {"1": long}}),
        ("logit_bias long number", "/v1/completions", {"prompt": "a", "max_tokens": 1, "logit_bias": {"0" * 100_000 + "1": "x"}}),
        ("role", "/v1/chat/completions", chat(messages=[{"role": long, "content": "a"}])),
        ("part type", "/v1/chat/completions", chat(messages=[{"role": "user", "content": [{"type": long}]}])),
        ("response_format", "/v1/chat/completions", chat(response_format={"type": long})),
        ("tool choice", "/v1/chat/completions", chat(tools=[tool], tool_choice={"type": "function", "function": {"name": long}})),
        ("tool name", "/v1/chat/completions", chat(tools=[{"type": "function", "function": {"name": long, "parameters": {"not": {}}}}],
                                                  tool_choice="required")),
        ("schema keyword", "/v1/chat/completions", chat(guided_json={long: 1})),
        ("schema property", "/v1/chat/completions", chat(guided_json={"type": "object", "properties": {long[:200_000]: {"not": {}}},
                                                                                "required": [long[:200_000]]})),
        ("schema type", "/v1/chat/completions", chat(guided_json={"type": long})),
        ("schema format", "/v1/chat/completions", chat(guided_json={"type": "string", "format": long})),
        ("schema $ref", "/v1/chat/completions", chat(guided_json={"$ref": "#/" + long})),
        ("schema pattern", "/v1/chat/completions", chat(guided_json={"type": "string", "pattern": "(" + long})),
        ("schema text", "/v1/chat/completions", chat(guided_json=long)),
        ("cache_salt", "/v1/completions", {"prompt": "a", "max_tokens": 1, "cache_salt": long}),
        ("previous response", "/v1/responses", {"input": "a", "max_output_tokens": 1, "previous_response_id": long}),
        ("item type", "/v1/responses", {"input": [{"type": long}], "max_output_tokens": 1}),
        ("anthropic block", "/v1/messages", {"messages": [{"role": "user", "content": [{"type": long}]}], "max_tokens": 1}),
        ("anthropic tool", "/v1/messages", {"messages": USER, "max_tokens": 1, "tool_choice": {"type": long}}),
        ("cache_control", "/v1/messages", {"messages": [{"role": "user", "content": [
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": long}}]}], "max_tokens": 1}),
        ("ollama format", "/api/chat", {"messages": USER, "format": long}),
        ("ollama keep_alive", "/api/generate", {"prompt": "a", "stream": False, "options": {"num_predict": long}}),
        ("tokens", "/detokenize", {"tokens": [long]}),
    ]
    with lab.server(["--kv-allow", "any"]) as server:
        longest = 0
        for name, path, body in bodies:
            reply = server.post(path, body)
            check(400 <= reply.status < 500, f"{name}: {reply.says()}")
            longest = max(longest, len(reply.body))
            check(len(reply.body) <= 4096, f"{name}: a refusal of {len(reply.body):,} bytes")
        for path in ("/v1/models/", "/v1/responses/", "/kvasir/requests/", "/"):
            check(len(server.get(path + "A" * 20_000).body) <= 4096, f"{path} quotes the whole path")
        # Tools that are not functions are skipped, which the log tells as shortly.
        for path, body in (("/v1/chat/completions", chat(tools=[{"type": long}])),
                           ("/v1/responses", {"input": "a", "max_output_tokens": 1, "tools": [{"type": long}]})):
            reply = server.post(path, body)
            check(reply.status == 200, f"a tool of a long type: {reply.says()}")
        lines = server.log_path.read_text(errors="replace").splitlines()
        check(any("skipped tools" in line for line in lines), "the log does not tell of skipped tools")
        check(max(map(len, lines)) <= 4096, f"a line of log of {max(map(len, lines)):,} characters")
        return f"{len(bodies)} refusals, the longest {longest:,} bytes"


ATTACKS = [
    Attack("nested json", nested_json),
    Attack("many objects", many_objects, measures=True),
    Attack("wide relatives", wide_relatives, quick=False, measures=True),
    Attack("tiny temperatures", tiny_temperatures),
    Attack("echoes", echoes),
]
