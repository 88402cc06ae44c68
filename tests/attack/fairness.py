"""One tenant's work never takes another's turn: credit for the past, handlers, masks, places, room."""
import json
import statistics
import threading
import time

from attack import (Attack, BYTES_PER_TOKEN, CONTEXT, Crowd, Failure, check, check_gaps, check_health, health_times, ids, ms,
                    percentile)

TWO = {"alice": (), "bob": ()}
THREE = {"alice": (), "bob": (), "op": ("--operator",)}


def idle_credit(lab):
    """After an idle moment nobody is served for what others had before: a newcomer starts level."""
    history = lab.of(18_000, 60_000)
    flags = ["--kv-memory", str(CONTEXT * BYTES_PER_TOKEN)]  # two of bob's requests fit, and turns are for room

    def wait_beside_bob(before):
        """How long alice waits for one token behind 50 while bob asks for more than there is room for."""
        with lab.server(flags, TWO) as server:
            for i in range(before // 1500):
                server.complete(ids(1500, 5_000 + i), "alice")
            time.sleep(0.3)

            def bob(i, turn):
                server.complete(ids(600, 1000 * i + turn), "bob", timeout=lab.of(10, 60), max_tokens=300, ignore_eos=True)

            with Crowd(12, bob):
                time.sleep(0.3)
                seconds = server.complete(ids(50, 1), "alice", timeout=lab.of(10, 60)).seconds
                server.cut()
                return seconds

    level, later = wait_beside_bob(0), wait_beside_bob(history)
    said = f"alice waits {ms(level)} beside bob, {ms(later)} after {history:,} tokens of her own and a pause"
    check(later <= 3 * level + 0.5, said)
    return said


# Each takes long to compile, or to refuse, and no two are alike: remembering one of them is no help.
def slow_schema(i):
    return {"type": "string", "pattern": f"^.*{'abcdefghijklmnopqrstuvwxyz'[i % 26]}.{{{14 + i // 26 % 2}}}$"}


def slow_handlers(lab):
    """Handlers' work is done in turns by tenant, and /health is not among it."""
    with lab.server(tenants=TWO) as server:
        quiet = statistics.median(server.complete(ids(20, i), "bob").seconds for i in range(5))

        def alice(i, turn):
            body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "guided_json": slow_schema(16 * turn + i)}
            server.post("/v1/chat/completions", body, "alice", timeout=120)

        with Crowd(16, alice):
            time.sleep(0.5)
            health = health_times(server, lab.of(2, 6))
            bob = [server.complete(ids(20, 10 + i), "bob").seconds for i in range(lab.of(3, 8))]
            server.cut()
        said = f"bob {ms(quiet)} -> {ms(statistics.median(bob))}"
        check(statistics.median(bob) <= 3 * quiet + 1.5, said)
        return f"{check_health(health)}; {said}"


def long_texts(lab):
    """Text far beyond the context is refused before it is tokenized, and tokenizing is in turns too."""
    text = "Once upon a time. " * lab.of(300_000, 1_500_000)
    with lab.server(tenants=TWO) as server:
        server.complete("a", "bob")
        turns = [{"role": "user", "content": text}]
        bodies = [("/v1/completions", {"prompt": text}), ("/v1/chat/completions", {"messages": turns, "explain": True}),
                  ("/tokenize", {"content": text, "with_pieces": True}), ("/v1/messages/count_tokens", {"messages": turns}),
                  ("/v1/responses/input_tokens", {"input": text})]
        bodies = [(path, json.dumps(body)) for path, body in bodies]
        with Crowd(4, lambda i, turn: server.post(*bodies[(i + turn) % len(bodies)], "alice", timeout=120)) as crowd:
            time.sleep(0.3)
            health = health_times(server, lab.of(2, 6))
            bob = [server.complete(ids(20, i), "bob").seconds for i in range(5)]
        check(all(reply.status < 500 for reply in crowd.results), f"a long text got {max(r.status for r in crowd.results)}")
        said = f"{check_health(health)}; bob's median {ms(statistics.median(bob))}"
        check(statistics.median(bob) <= 1.5, said)
        return f"texts of {len(text) >> 20} MiB: {said}"


def alternatives(count):
    """Objects with one text each, no two of a length: every place in them is another, and so is every mask."""
    return {"anyOf": [{"type": "object", "properties": {"a": {"type": "string", "pattern": f"^[a-z ]{{{n},{n + 1}}}$"}},
                       "required": ["a"], "additionalProperties": False} for n in range(20, 20 + count)]}


def slow_masks(lab):
    """A token's mask may take long; it is paid for by whoever asked for it, or refused."""
    said = []
    with lab.server(tenants=TWO) as server:
        quiet = server.stream("Once upon a time", 200, "bob")
        for count in [400, 40]:
            def body(seed):
                return {"messages": [{"role": "user", "content": "a"}], "n": 32, "max_tokens": 24, "temperature": 1, "seed": seed,
                        "guided_json": alternatives(count)}

            # Once before: the schema is compiled and kept, so that what follows are masks.
            first = server.post("/v1/chat/completions", body(1), "alice", timeout=120)
            check(first.status < 500, f"{count} alternatives got {first.says()}")
            with Crowd(1, lambda i, turn: server.post("/v1/chat/completions", body(turn + 2), "alice", timeout=120)):
                time.sleep(0.3)
                gaps, begin = [], time.monotonic()
                while time.monotonic() < begin + lab.of(2, 12):
                    gaps += server.stream("Once upon a time", 60, "bob", timeout=120)
            said.append(f"{count} alternatives ({first.status}): {check_gaps(quiet, gaps)}")
    return "; ".join(said)


def many_streams(lab):
    """With many answers of another running, gaps grow with a batch, not with the number of who waits."""
    with lab.server(tenants=TWO) as server:
        quiet = server.stream("Once upon a time", 150, "bob")

        def alice(i, turn):
            server.complete(ids(300, 100 * i + turn), "alice", timeout=120, n=8, max_tokens=100, ignore_eos=True)

        with Crowd(8, alice):
            time.sleep(1)
            under = server.stream("Once upon a time", 100, "bob", timeout=120)
            health = health_times(server, 1)
        check(percentile(under, .95) < 1, f"p95 {ms(percentile(under, .95))}")
        return f"{check_health(health)}; gaps p95 {ms(percentile(quiet, .95))} -> {ms(percentile(under, .95))} beside 64 answers"


def all_places(lab):
    """One request, or one tenant's many, leave places for others: to wait in, and to run in."""
    with lab.server(tenants=TWO) as server:
        large = {"prompt": [f"text {i}" for i in range(10)], "n": 128, "max_tokens": 1500, "ignore_eos": True}
        alike = {"prompt": "a", "n": 128, "max_tokens": 1500, "ignore_eos": True}
        with Crowd(14, lambda i, turn: server.post("/v1/completions", alike if i else large, "alice"), forever=False):
            time.sleep(1)
            waits = []
            for i in range(3):
                reply = server.post("/v1/completions", {"prompt": f"b {i}", "max_tokens": 1}, "bob", timeout=8)
                check(reply.status == 200, f"bob got {reply.says()}")
                waits.append(reply.seconds)
            server.cut()
        said = f"bob is answered after {ms(max(waits))} at most"
        check(max(waits) < 2.5, said)
        return said


def head_of_line(lab):
    """Who waits for room that is not there stops only those who need the same room, and is not starved by them."""
    flags = ["--kv-memory", str(128 * 16 * BYTES_PER_TOKEN), "--kv-allow", "any", "--threads", "1"]
    said = []
    for policy in ["f16", "f16, window=64"]:
        with lab.server(flags, THREE) as server:
            quiet = statistics.median(server.complete("x", "op").seconds for _ in range(5))
            asked = threading.Event()

            def bob(i, turn):
                server.complete(ids(40, 1), "bob", timeout=120, max_tokens=1500, ignore_eos=True)

            def alice(i, turn):
                asked.set()
                begin = time.monotonic()
                server.complete(ids(1900, 2), "alice", timeout=120, kv=policy)
                return time.monotonic() - begin

            with Crowd(1, bob, forever=False) as first:
                time.sleep(0.4)
                with Crowd(1, alice, forever=False) as second:
                    asked.wait(5)
                    time.sleep(0.1)
                    waits = [server.complete("x", "op", timeout=120).seconds for _ in range(5)]
                    begin, flood = time.monotonic(), 0
                    while not second.results and time.monotonic() < begin + 60 and not second.errors:
                        server.complete(f"y {flood}", "op", timeout=120)
                        flood += 1
                check(not second.errors and not first.errors, f"alice, bob: {second.errors + first.errors}")
            said.append(f"{policy}: op {ms(quiet)} -> {ms(max(waits))}")
            check(max(waits) <= 3 * quiet + 0.8, "; ".join(said))
    return "; ".join(said)


def refused_beside_admitted(lab):
    """A request that is refused for its size takes no place from another, not even for a moment."""
    flags = ["--max-queued", "40", "-q"]
    with lab.server(flags) as server:
        ok = [0]

        def large(i, turn):
            server.post("/v1/completions", {"prompt": ["a", "b", "c"], "n": 128, "max_tokens": 1})

        end = time.monotonic() + lab.of(3, 20)
        with Crowd(4, large):
            while time.monotonic() < end:
                reply = server.post("/v1/completions", {"prompt": "a", "n": 100, "max_tokens": 1, "temperature": 0})
                if reply.status != 200:
                    raise Failure(f"after {ok[0]} requests that were admitted, one got {reply.says()}")
                ok[0] += 1
        return f"{ok[0]} admitted beside refused ones"


ATTACKS = [
    Attack("idle credit", idle_credit, quick=False, measures=True),
    Attack("slow handlers", slow_handlers, measures=True),
    Attack("long texts", long_texts, measures=True),
    Attack("slow masks", slow_masks, measures=True, seconds=240),
    Attack("many streams", many_streams, measures=True, quick=False),
    Attack("all places", all_places, measures=True),
    Attack("head of line", head_of_line, quick=False, measures=True, seconds=240),
    Attack("refused beside admitted", refused_beside_admitted, quick=False),
]
