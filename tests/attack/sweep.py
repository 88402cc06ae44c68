"""Every field of every API with every nasty value: a 4xx or an answer, soon, and never a 500."""
import json
import random
import time

from attack import Attack, Failure, check, ms

TEXT = '"' + "a" * 300_000 + '"'
# As JSON texts: some of them are no Python values.
VALUES = {
    "null": "null", "true": "true", "0": "0", "-1": "-1", "1.5": "1.5", "1e308": "1e308", "1e999": "1e999", "-0.0": "-0.0",
    "2^31": "2147483648", "2^63": "9223372036854775808", "-2^63": "-9223372036854775808", "many digits": "1" * 5000,
    "empty text": '""', "text": '"x"', "long text": TEXT, "NUL": '"\\u0000"', "half a pair": '"\\ud800"', "number in text": '"1"',
    "[]": "[]", "{}": "{}", "[null]": "[null]", "[[]]": "[[]]", "[{}]": "[{}]", "{a: {}}": '{"a":{}}', "[text]": '["x"]', "[1]": "[1]",
    "deep list": "[" * 5000 + "]" * 5000, "deep object": '{"a":' * 5000 + "1" + "}" * 5000,
    "objects": "[" + ",".join(["{}"] * 5000) + "]", "numbers": "[" + ",".join(["7"] * 5000) + "]",
    "texts": "[" + ",".join(['"x"'] * 5000) + "]", "keys": "{" + ",".join(f'"{i}":1' for i in range(5000)) + "}",
    "type object": '{"type":"object"}', "type function": '{"type":"function"}', "named": '{"type":"function","name":"f","function":{"name":"f"}}',
    "list of functions": '[{"type":"function","function":{"name":"f"}}]', "list of tools": '[{"name":"f","input_schema":{}}]',
    "pattern bomb": '{"type":"string","pattern":"((a{1,30}){1,30}){1,30}"}', "schema bomb": '{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}',
    "self": '{"$ref":"#"}', "counts": '{"type":"array","items":{"type":"array","items":{},"maxItems":999999},"maxItems":999999}',
    "marks": '{"type":"ephemeral","ttl":"1h"}', "format": '{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"integer"}}}',
}
SAMPLING = ["temperature", "top_p", "top_k", "min_p", "seed", "stop", "n", "frequency_penalty", "presence_penalty", "repetition_penalty",
            "logit_bias", "stop_token_ids", "ignore_eos", "min_tokens", "priority", "explain", "kv", "cache_salt", "prompt_cache_key",
            "guided_json", "guided_regex", "guided_choice", "guided_grammar", "json_schema", "grammar", "user", "metadata", "model",
            "stream_options"]
CHAT = ["messages", "messages.0.role", "messages.0.content", "messages.0.content.0.text", "messages.0.content.0.type", "messages.1.tool_calls",
        "messages.1.tool_calls.0.function.arguments", "messages.1.tool_calls.0.function", "messages.1.tool_calls.0.id", "tools", "tools.0.function",
        "tools.0.function.parameters", "tools.0.function.name", "tool_choice", "parallel_tool_calls", "response_format", "logprobs",
        "top_logprobs", "chat_template_kwargs", "prompt_cache_options", "prompt_cache_retention", "max_completion_tokens",
        "messages.0.content.0.prompt_cache_breakpoint"]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
PARTS = [{"type": "text", "text": "a"}]
TURNS = [{"role": "user", "content": PARTS}, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c", "content": "r"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
USE = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "r"}
APIS = {
    "/v1/chat/completions": ({"messages": TURNS, "tools": [TOOL], "max_tokens": 1}, CHAT + SAMPLING),
    "/v1/completions": ({"prompt": ["a"], "max_tokens": 1},
                        ["prompt", "prompt.0", "logprobs", "echo", "suffix", "best_of", "response_format"] + SAMPLING),
    "/v1/responses": ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]},
                                 {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                                 {"type": "function_call_output", "call_id": "c", "output": "r"}],
                       "tools": [{"type": "function", "name": "f", "parameters": {}}], "text": {}, "max_output_tokens": 1},
                      ["input", "input.0", "input.0.role", "input.0.content", "input.0.content.0", "input.0.content.0.text", "input.1",
                       "input.1.arguments", "input.1.call_id", "input.1.name", "input.2.output", "input.2.call_id", "tools", "tools.0",
                       "tools.0.parameters", "tools.0.name", "tool_choice", "instructions", "previous_response_id", "store",
                       "text", "text.format", "include", "reasoning",
                       "top_logprobs", "truncation", "background", "conversation", "prompt", "safety_identifier"] + SAMPLING),
    "/v1/responses/input_tokens": ({"input": "a"}, ["input", "tools", "instructions", "previous_response_id", "chat_template_kwargs", "model"]),
    "/v1/messages": ({"messages": [{"role": "user", "content": PARTS}, {"role": "assistant", "content": [USE]},
                                   {"role": "user", "content": [RESULT]}],
                      "tools": [{"name": "f", "input_schema": {}}], "max_tokens": 1},
                     ["messages", "messages.0", "messages.0.role", "messages.0.content", "messages.0.content.0", "messages.0.content.0.text",
                      "messages.0.content.0.cache_control", "messages.1.content.0.input", "messages.1.content.0.id", "messages.1.content.0.name",
                      "messages.2.content.0.content", "messages.2.content.0.tool_use_id", "system", "tools", "tools.0", "tools.0.input_schema",
                      "tools.0.name", "tools.0.cache_control", "tool_choice", "stop_sequences", "thinking", "cache_control"] + SAMPLING),
    "/v1/messages/count_tokens": ({"messages": [{"role": "user", "content": "a"}]}, ["messages", "system", "tools", "tool_choice"]),
    "/api/chat": ({"messages": TURNS, "stream": False, "options": {"num_predict": 1}},
                  ["messages", "messages.0", "messages.0.content", "messages.1.tool_calls.0.function.arguments", "tools", "format", "options.stop",
                   "options.temperature", "options.num_predict", "options.num_ctx", "options.seed", "keep_alive", "think", "logprobs",
                   "top_logprobs", "kv", "tool_choice", "model", "stream"]),
    "/api/generate": ({"prompt": "a", "stream": False, "options": {"num_predict": 1}},
                      ["prompt", "system", "template", "context", "raw", "format", "images", "suffix", "options", "options.top_k", "kv", "keep_alive"]),
    "/tokenize": ({"content": "a"}, ["content", "add_special", "parse_special", "with_pieces"]),
    "/detokenize": ({"tokens": [5]}, ["tokens", "tokens.0"]),
    "/apply-template": ({"messages": [{"role": "user", "content": "a"}]},
                        ["messages", "messages.0", "messages.0.content", "tools", "chat_template_kwargs"]),
}
MARK = "\x01"


def with_value(body, path, value):
    """The body's JSON with that text in place of a field."""
    body = json.loads(json.dumps(body))
    place, keys = body, [int(key) if key.isdigit() else key for key in path.split(".")]
    try:
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = MARK
    except (KeyError, IndexError, TypeError) as error:
        raise Failure(f"{path} is no field of {body}") from error
    return json.dumps(body).replace(json.dumps(MARK), value)


def cases():
    return [(path, field, name, with_value(body, field, value)) for path, (body, fields) in APIS.items() for field in fields
            for name, value in VALUES.items()]


def every_field(lab):
    chosen = cases()
    if not lab.long:
        chosen = random.Random(7).sample(chosen, 400)
    with lab.server(["--kv-allow", "any", "-q", "--ctx-size", "256"]) as server:  # some take the bound of an answer away
        slow, slowest, counts = "", 0, {}
        for path, field, name, body in chosen:
            what = f"{path} {field} = {name}"
            try:
                reply = server.post(path, body, timeout=20)
            except (OSError, Failure) as error:
                raise Failure(f"{what}: {error}") from error
            check(reply.status < 500, f"{what}: {reply.says()}")
            check(len(reply.body) < 2_000_000, f"{what}: a reply of {len(reply.body):,} bytes")
            counts[reply.status] = counts.get(reply.status, 0) + 1
            if reply.seconds > slowest:
                slow, slowest = what, reply.seconds
        check(slowest < 5, f"{slow} took {slowest:.1f} s")
        return f"{len(chosen)} requests: {counts}; the slowest, {slow}, in {ms(slowest)}"


def empty_tools(lab):
    """Empty values where lists or objects are expected."""
    with lab.server() as server:
        tried = 0
        for path, (body, fields) in APIS.items():
            for field in fields:
                if "tool" not in field and "format" not in field and "messages" not in field and "input" not in field:
                    continue
                for value in ("{}", "[]", "[{}]", "[[]]", '[""]', "0", "false", '""', "[null]"):
                    reply = server.post(path, with_value(body, field, value), timeout=20)
                    tried += 1
                    check(reply.status < 500, f"{path} {field} = {value}: {reply.says()}")
        return f"{tried} requests"


def many_small(lab):
    """Thousands of small requests, right and wrong, on connections that stay and that do not."""
    with lab.server(["-q"]) as server:
        server.complete("a")
        rss, fds, begin = server.rss(), server.fds(), time.monotonic()
        draw, count = random.Random(3), lab.of(1500, 15_000)
        tries = [("GET", "/health", None), ("GET", "/v1/models", None), ("POST", "/v1/completions", "{}"), ("POST", "/v1/completions", "["),
                 ("GET", "/nowhere", None), ("DELETE", "/v1/responses/resp_x", None), ("POST", "/tokenize", '{"content":"a"}'),
                 ("PUT", "/v1/completions", "{}"), ("POST", "/v1/messages", '{"messages":[]}'), ("GET", "/slots", None), ("GET", "/metrics", None)]
        for _ in range(count):
            method, path, body = draw.choice(tries)
            check(server.request(method, path, body).status < 500, path)
        check(server.rss() - rss < 50 << 20, f"{(server.rss() - rss) >> 20} MiB more after {count} small requests")
        check(server.fds() <= fds + 2, f"{server.fds() - fds} descriptors more")
        return f"{count} requests in {time.monotonic() - begin:.1f} s, {(server.rss() - rss) >> 20} MiB more"


ATTACKS = [
    Attack("every field", every_field, seconds=1800),
    Attack("empty tools", empty_tools),
    Attack("many small", many_small, measures=True),
]
