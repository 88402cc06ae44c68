"""Ten thousand mixed requests, hostile ones among them: no wrong answer, no lost one, memory flat.

A third of the draws below are not questions: clients that leave, bodies that are malformed, deep, wide, long or too large, bytes that are no HTTP,
and reads of everything that can be read. Every draw is of one seed, and every seventh of a schema, a policy or an API of its own.
"""
import http.client
import json
import random
import sys
import threading
import time

from answers import Refusal, ask, known_answers, leave
from attack import Attack, CONTEXT, BYTES_PER_TOKEN, Failure, MIB, at_once, check, ids, mib, wait_until
import inputs
import sweep
import wire

TENANTS = {"alice": ("--guaranteed", "20%"), "bob": ("--weight", "3"), "carol": ("--most", "60%"), "op": ("--operator",)}
FLAGS = ["--kv-memory", str(2 * CONTEXT * BYTES_PER_TOKEN), "--swap-memory", str(4 * MIB), "--kv-allow", "any", "-q"]


def hostile_requests():
    """(path, body) that are refused, or answered with what nobody compares."""
    pool = [(path, body) for path, field, _, body in sweep.cases() if not field.startswith("options")]  # answers stay short
    pool = random.Random(1).sample(pool, 400)
    pool += [(path, body) for _, path, body in inputs.places(inputs.deep(20_000)) + inputs.places(inputs.wide(2_000))]
    pool += [("/v1/completions", json.dumps(body)) for body in [
        {"prompt": "a", "n": 128, "max_tokens": 1}, {"prompt": ["a"] * 10, "n": 128, "max_tokens": 1}, {"prompt": ids(5000, 1)},
        {"prompt": "word " * 60_000}, {"prompt": "a", "logit_bias": {str(i): 1 for i in range(5000)}}, {"prompt": "a", "kv": "y" * 50_000},
        {"prompt": "a", "max_tokens": 1, "guided_json": {"type": "string", "pattern": "^.*b.{9}$"}}]]
    return pool


class Soak:
    """The counts of a run, and its draws: one number says what request it is."""

    def __init__(self, lab, server, count):
        self.server, self.count = server, count
        self.questions, self.answers = known_answers(lab, 21, lab.of(60, 300))
        self.hostile, self.tenants = hostile_requests(), ["alice", "bob", "carol"]
        self.counts, self.rss, self._lock, self._done = {}, {}, threading.Lock(), 0

    def count_one(self, kind):
        with self._lock:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self._done += 1
            if self._done % (self.count // 20) == 0:
                self.rss[self._done] = self.server.rss()
                print(f"  {self._done:6} requests, {mib(self.rss[self._done])}, {self.server.fds()} descriptors, {self.counts}",
                      file=sys.stderr, flush=True)

    def one(self, number):
        draw = random.Random(number)
        tenant, kind = draw.choice(self.tenants), draw.random()
        if kind < 0.68:
            self.question(draw, tenant)
        elif kind < 0.78:
            leave(self.server, draw.choice(self.questions), tenant, draw)
            self.count_one("left")
        elif kind < 0.92:
            path, body = draw.choice(self.hostile)
            status = self.server.post(path, body, tenant, timeout=120).status
            check(status < 500, f"{path} got {status}: {body[:200]}")
            self.count_one(f"hostile {status}")
        elif kind < 0.95:
            data = draw.choice([draw.randbytes(300), wire.head(b"Transfer-Encoding: xchunked") + b"0\r\n\r\n",
                                wire.head(b"Content-Length: 50") + b"{}", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * draw.randrange(50)])
            self.server.raw(data, timeout=0.2)
            self.count_one("no HTTP")
        else:
            path = draw.choice(["/metrics", "/slots", "/props", "/health", "/v1/models", "/kvasir/requests/none", "/v1/responses/none", "/x"])
            check(self.server.get(path, tenant).status in (200, 404), path)
            self.count_one("read")

    def question(self, draw, tenant):
        i = draw.randrange(len(self.questions))
        for _ in range(50):
            got = ask(self.server, self.questions[i], tenant)
            if not (isinstance(got, Refusal) and got.status == 429):
                break
            time.sleep(0.05)  # full: as one is told, try again
        check(got == self.answers[i], f"{self.questions[i].path}: {str(got)[:150]} instead of {str(self.answers[i])[:150]}; "
                                      f"{self.questions[i].body[:200]}")
        self.count_one("equal")


def soak(lab):
    count = lab.of(1_000, 10_000)
    with lab.server(FLAGS, TENANTS) as server:
        run = Soak(lab, server, count)
        fds, begin = server.fds(), time.monotonic()
        # Memory is touched as far as the widest step yet, and the largest body, want it. Each of what is hostile comes
        # once before, so that what is measured is growth, and not when chance brings the largest.
        at_once(run.hostile, lambda one: server.post(*one, "carol", timeout=120), 8)

        def one(number):
            try:
                run.one(number)
            except (OSError, http.client.HTTPException) as error:
                raise Failure(f"request {number} was lost: {type(error).__name__}: {error}") from error
        at_once(range(count), one, 8)
        rest = wait_until(lambda: server.total("vllm:num_requests_running") + server.total("vllm:num_requests_waiting") == 0, 60)
        check(rest, "requests still run")
        check(wait_until(lambda: server.fds() <= fds + 2, 10), f"{server.fds()} descriptors, {fds} at first")
        warm, half, last = run.rss[count // 10], run.rss[count // 2], server.rss()
        said = (f"{count:,} requests in {time.monotonic() - begin:.0f} s: {run.counts.get('equal', 0)} equal, {run.counts}; "
                f"{mib(warm)} after a tenth, {mib(half)} after half, {mib(last)} at the end")
        check(not lab.long or (last <= 1.1 * warm and last <= 1.05 * half), said)
        return said


ATTACKS = [Attack("soak", soak, quick=False, measures=True, seconds=3000)]
