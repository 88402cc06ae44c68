"""Requests whose answers are known, and the law: under any load an answer is an idle server's, bit for bit.

A question is a value. Its answer is brought into one form, text, reason and log-probabilities of each choice, whichever API
it was asked at and whether it was streamed, so that equal means equal.
"""
import dataclasses
import contextlib
import functools
import http.client
import json
import random

from attack import Failure, at_once, check, ids, words

POLICIES = [None, None, None, "int8", "f32", "k=int8, v=int4", "f16, window=96, sinks=4", "int4, recent=32:f16, sinks=4",
            "f16, evict=h2o:64, sinks=4", "f16, evict=snapkv:64, heads=adaptive, sinks=4", "bf16, evict=tova:50%"]
SCHEMAS = [{"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
            "required": ["name", "age"]}, {"enum": ["red", "green", "blue"]}, {"type": "array", "items": {"type": "boolean"}, "maxItems": 4}]


@dataclasses.dataclass(frozen=True)
class Question:
    path: str
    body: str     # JSON
    stream: bool = False


def draw_question(draw):
    """A small one: a prompt of up to 250 tokens, often with a beginning that others have too, and up to 120 tokens of answer."""
    shared = words(draw.choice([0, 30, 100, 160]), draw.randrange(4))
    text = f"{shared} {words(draw.randrange(2, 60), draw.randrange(10_000))}".strip()
    tokens, greedy = draw.choice([draw.randrange(1, 50)] * 5 + [120]), draw.random() < 0.5
    common = {"temperature": 0 if greedy else draw.choice([0.7, 1.0, 1.3]), "seed": draw.randrange(1000)}
    if policy := draw.choice(POLICIES):
        common["kv"] = policy
    if draw.random() < 0.2:
        common["stop"] = draw.choice([[". "], ["the", "a"], ["\n"]])
    if draw.random() < 0.2:
        common |= {"frequency_penalty": 0.7, "repetition_penalty": 1.2}
    if draw.random() < 0.1:
        common["logit_bias"] = {str(draw.randrange(300, 8000)): draw.choice([-100, 5]) for _ in range(5)}
    n = {"n": draw.choice([1, 1, 1, 2, 3])}
    turns = [{"role": "user", "content": text}]
    if draw.random() < 0.15:
        common["guided_json"] = draw.choice(SCHEMAS)
    kind = draw.randrange(6)
    if kind == 0:
        stream = draw.random() < 0.5
        return Question("/v1/completions", json.dumps({"prompt": text, "max_tokens": tokens, "logprobs": 3, "stream": stream, **n, **common}), stream)
    if kind == 1:
        prompt = ids(draw.randrange(1, 250), draw.randrange(40))
        return Question("/v1/completions", json.dumps({"prompt": prompt, "max_tokens": tokens, "logprobs": 1, **n, **common}))
    if kind == 2:
        stream = draw.random() < 0.5
        return Question("/v1/chat/completions", json.dumps({"messages": turns, "max_tokens": tokens, "logprobs": True, "top_logprobs": 2,
                                                            "stream": stream, **n, **common}), stream)
    common.pop("stop", None)
    common.pop("guided_json", None)
    if kind == 3:
        return Question("/v1/responses", json.dumps({"input": text, "max_output_tokens": tokens, "store": draw.random() < 0.5, **common}))
    if kind == 4:
        return Question("/v1/messages", json.dumps({"messages": turns, "max_tokens": tokens, **common}))
    sampling = ("temperature", "seed", "frequency_penalty", "repetition_penalty", "logit_bias")
    options = {key: common.pop(key) for key in sampling if key in common}
    return Question("/api/chat", json.dumps({"messages": turns, "stream": False, "options": {"num_predict": tokens, **options}, **common}))


def draw_questions(seed, count):
    draw = random.Random(seed)
    return [draw_question(draw) for _ in range(count)]


def _streamed(reply):
    """The choices of a stream of chunks, as its whole answer has them."""
    choices, ended = {}, False
    for line in reply:
        if not line.startswith(b"data: "):
            continue
        if line.startswith(b"data: [DONE]"):
            ended = True
            continue
        event = json.loads(line[6:])
        if "error" in event:
            raise Failure(f"a stream ended with {json.dumps(event)[:200]}")
        for part in event.get("choices", []):
            text, told, reason = choices.get(part["index"], ("", [], None))
            told = told + _logprobs(part.get("logprobs"))
            choices[part["index"]] = (text + (part.get("text") or part.get("delta", {}).get("content") or ""), told,
                                      part["finish_reason"] or reason)
    if not ended:
        raise http.client.IncompleteRead(b"")
    return [choices[i] for i in sorted(choices)]


def _logprobs(given):
    if not given:
        return []
    if "content" in given:
        return [(entry["token"], entry["logprob"]) for entry in given["content"]]
    return list(zip(given["tokens"], given["token_logprobs"]))


def _whole(path, value):
    if path in ("/v1/completions", "/v1/chat/completions"):
        return [(choice["text"] if "text" in choice else choice["message"]["content"] or "", _logprobs(choice["logprobs"]), choice["finish_reason"])
                for choice in value["choices"]]
    if path == "/v1/responses":
        text = "".join(part["text"] for item in value["output"] if item["type"] == "message" for part in item["content"])
        return [(text, [], value["status"])]
    if path == "/v1/messages":
        return [("".join(part["text"] for part in value["content"]), [], value["stop_reason"])]
    return [(value["message"]["content"], [], value["done_reason"])]


@dataclasses.dataclass(frozen=True)
class Refusal:
    status: int
    said: str


def ask(server, question, tenant=None, timeout=120):
    """The answer, or the Refusal that was given instead. Raises where there was neither."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    try:
        connection.request("POST", question.path, question.body, server.headers(tenant))
        reply = connection.getresponse()
        if reply.status != 200:
            return Refusal(reply.status, reply.read()[:300].decode(errors="replace"))
        return _streamed(reply) if question.stream else _whole(question.path, json.loads(reply.read()))
    except TimeoutError as error:
        raise Failure(f"no answer in {timeout} s at {question.path}: {question.body[:200]}") from error
    finally:
        connection.close()


def leave(server, question, tenant, draw):
    """Asks, and goes: before the answer, or in the middle of it."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("POST", question.path, question.body, server.headers(tenant))
        if draw.random() < 0.5:
            with contextlib.suppress(TimeoutError):  # it would have gone anyway
                connection.sock.recv(draw.randrange(1, 400))
    finally:
        connection.close()


@functools.cache
def known_answers(lab, seed, count):
    """Questions, and what an idle server answers to each, one at a time. Every question is one that is answered."""
    questions = draw_questions(seed, count)
    with lab.server(["--kv-allow", "any", "-q"]) as server:
        answers = [ask(server, question) for question in questions]
    for question, answer in zip(questions, answers):
        check(not isinstance(answer, Refusal), f"an idle server refused {question.body[:200]}: {answer}")
    return questions, answers


def check_answers(server, questions, answers, clients, tenants=(None,), refusals=()):
    """All asked at once by so many clients; returns how many were equal, and how many were refused with such a status."""
    def one(i):
        got = ask(server, questions[i], tenants[i % len(tenants)])
        if isinstance(got, Refusal):
            check(got.status in refusals, f"{questions[i].path} was refused: {got}; {questions[i].body[:200]}")
            return 0
        check(got == answers[i], f"{questions[i].path}: {str(got)[:150]} instead of {str(answers[i])[:150]}; {questions[i].body[:300]}")
        return 1
    equal = sum(at_once(range(len(questions)), one, clients))
    return equal, len(questions) - equal
