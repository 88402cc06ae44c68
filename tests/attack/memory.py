"""Everything a request makes the server hold has a bound: biases, bodies, swap, records, responses, schemas, pins."""
import json
import socket
import statistics
import time

from attack import (Attack, BYTES_PER_TOKEN, CONTEXT, Crowd, MIB, at_once, check, check_health, health_times, ids, mib, wait_until,
                    words)


def logit_bias(lab):
    """A bias is for tokens, each once; and answers share it."""
    with lab.server(["--max-queued", "1024"]) as server:
        server.complete("a")
        base = server.max_rss()
        entries = lab.of(200_000, 400_000)
        bias = {str(i): 1 for i in range(entries)}
        for n, prompts in [(128, ["a"]), (50, ["a", "b"])]:
            reply = server.post("/v1/completions", {"prompt": prompts, "n": n, "max_tokens": 4, "logit_bias": bias})
            check(reply.status in (200, 400, 413, 429, 503), reply.says())
            check(server.max_rss() - base < 300 * MIB, f"{entries:,} entries x {n * len(prompts)} answers: "
                                                       f"{mib(server.max_rss() - base)} of memory, {reply.seconds:.1f} s")
        odd = [{"01": 1}, {"1": 1, "001": 2}, {"8192": 1}, {"99999999": 1}, {"-1": 1}, {"+1": 1}, {"1e3": 1}, {" 1": 1}]
        for bias in odd:
            reply = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1, "logit_bias": bias})
            check(reply.status == 400, f"logit_bias {bias} got {reply.status}")
        fine = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1, "logit_bias": {str(i): 1 for i in range(300)}})
        check(fine.status == 200, f"300 entries got {fine.says()}")
        return f"{entries:,} entries for 128 answers: {mib(server.max_rss() - base)}"


def multiplied(lab):
    """What one request gives many answers is held once: stops, schemas, prompts."""
    with lab.server() as server:
        server.complete("a")
        base = server.max_rss()
        schema = {"enum": [f"value number {i}" for i in range(3000)]}
        for more in [{"stop": ["s" * 4000] * 4}, {"stop_token_ids": list(range(1000))}, {"guided_json": schema},
                     {"prompt": ids(1900, 1)}, {"logprobs": 5, "max_tokens": 30}]:
            reply = server.post("/v1/completions", {"prompt": "a", "n": 128, "max_tokens": 2, **more}, timeout=120)
            check(reply.status in (200, 400, 429), reply.says())
        grown = server.max_rss() - base
        check(grown < 300 * MIB, f"128 answers took {mib(grown)}")
        return f"128 answers of 5 kinds: {mib(grown)}"


def swap_memory(lab):
    """--swap-memory is what pauses may take of the host's memory, not what they may fill of it."""
    size, clients = 4 * MIB, lab.of(48, 128)
    with lab.server(["--kv-memory", str(2 * size), "--swap-memory", str(size)]) as server:
        server.complete("a")
        base = server.mapped()
        at_once(range(clients), lambda i: server.complete(ids(60 + 7 * i % 50, i), timeout=120, max_tokens=lab.of(120, 200),
                                                          ignore_eos=True), clients)
        pauses, grown = server.total("kvasir:pauses_total"), server.mapped() - base
        check(pauses > 0, "nothing was paused")
        check(grown < size + 64 * MIB, f"{mib(size)} allowed, {mib(grown)} mapped after {pauses:.0f} pauses")
        return f"{mib(size)} allowed, {mib(grown)} mapped in all after {pauses:.0f} pauses"


def half_sent_bodies(lab):
    """Bodies in flight have a bound in sum: many clients that send most of a large one do not take the memory."""
    count, size = lab.of(24, 60), 30 * MIB
    with lab.server() as server:
        server.complete("a")
        base, sockets, piece = server.rss(), [], b"a" * MIB
        try:
            for _ in range(count):
                sock = socket.create_connection(("127.0.0.1", server.port), timeout=2)
                sockets.append(sock)
                try:
                    sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                 b"Content-Length: %d\r\n\r\n" % size)
                    for _ in range(29):
                        sock.sendall(piece)
                except OSError:
                    pass  # refused, or not read for now: both are a bound
                if server.rss() - base > 700 * MIB:
                    break
            time.sleep(0.3)
            grown = server.rss() - base
            health = check_health(health_times(server, 1))
            check(grown < 400 * MIB, f"{len(sockets)} half-sent bodies of 30 MiB: {mib(grown)}")
            check(server.complete("b", timeout=30).status == 200, "")
        finally:
            for sock in sockets:
                sock.close()
        check(wait_until(lambda: server.rss() - base < 128 * MIB, 10), f"{mib(server.rss() - base)} stay when the clients are gone")
        return f"{len(sockets)} bodies of 30 MiB: {mib(grown)}; {health}"


def unread_streams(lab):
    """What a client does not read is held within a bound, however much it asked for."""
    body = json.dumps({"messages": [{"role": "user", "content": "a"}], "n": 128, "max_tokens": 1000, "stream": True, "ignore_eos": True,
                       "logprobs": True, "top_logprobs": 20}).encode()
    with lab.server() as server:
        server.complete("a")
        base, sockets, height = server.rss(), [], 0
        try:
            for _ in range(2):
                sock = socket.socket()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.settimeout(5)
                sock.connect(("127.0.0.1", server.port))
                sockets.append(sock)
                sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            end = time.monotonic() + lab.of(8, 25)
            while time.monotonic() < end and height < 200 * MIB:
                height = max(height, server.rss() - base)
                time.sleep(0.2)
            health = check_health(health_times(server, 0.5))
        finally:
            for sock in sockets:
                sock.close()
        check(height < 150 * MIB, f"{mib(height)} for 2 clients that do not read")
        check(wait_until(lambda: server.total("vllm:num_requests_running") == 0, 20), "their answers still run")
        return f"{mib(height)} for 2 clients that do not read; {health}"


def given_back(lab):
    """Memory that a large request took is free again behind it."""
    with lab.server() as server:
        server.complete("a")
        base = server.rss()
        text = "Once upon a time there was. " * lab.of(150_000, 250_000)
        bodies = [("/tokenize", {"content": text, "with_pieces": True}), ("/v1/completions", {"prompt": text, "max_tokens": 1}),
                  ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}] * 60_000, "max_tokens": 1, "explain": True})]
        bodies = [(path, json.dumps(body)) for path, body in bodies]
        for path, body in bodies * lab.of(1, 4):
            at_once(range(2), lambda _: server.post(path, body, timeout=120), 2)
        wait_until(lambda: server.rss() - base < 100 * MIB, 5)
        grown = server.rss() - base
        check(grown < 200 * MIB, f"{mib(grown)} stay after {2 * len(bodies) * lab.of(1, 4)} large requests")
        return f"{mib(grown)} stay after large requests, of {mib(server.max_rss() - base)} at the height"


def records(lab):
    """What became of a request is kept in bounded bytes, however many answers and steps it had."""
    with lab.server(["--max-batch-tokens", "32", "-q"]) as server:
        longest = 0
        bodies = [{"prompt": ["a"] * 10, "n": 128, "max_tokens": 1}, {"prompt": "a", "n": 128, "max_tokens": 1},
                  {"prompt": ids(1900, 1), "n": 16, "max_tokens": 1}]
        for body in bodies:
            reply = server.post("/v1/completions", body, timeout=120)
            if reply.status != 200:
                check(reply.status in (400, 429), reply.says())
                continue
            record = server.get(f"/kvasir/requests/{reply.json['id']}")
            check(record.status == 200, record.says())
            longest = max(longest, len(record.body))
        check(longest <= 64 << 10, f"a record of {longest >> 10} KiB; 1024 of them are {mib(longest * 1024)} a tenant")
        base, count = server.rss(), lab.of(20, 400)
        for i in range(count):
            server.post("/v1/completions", bodies[1])
        grown = server.rss() - base
        check(grown < 20 * MIB + count * 40_000, f"{mib(grown)} for {count} records")
        return f"the longest record has {longest >> 10} KiB; {count} of 128 answers took {mib(grown)}"


def responses(lab):
    """Kept responses have a bound in bytes, and going on from one does not double it."""
    with lab.server(["-q"]) as server:
        server.complete("a")
        base, text, count = server.rss(), "word " * 1500, lab.of(60, 1500)
        metadata = {str(i): "m" * 500 for i in range(16)}
        last = None
        for i in range(count):
            body = {"input": text, "instructions": "i" * 1000, "max_output_tokens": 1, "metadata": metadata, "user": "u" * 500}
            reply = server.post("/v1/responses", body | ({"previous_response_id": last} if last and i % 3 else {}))
            check(reply.status in (200, 400), reply.says())
            last = reply.json["id"] if reply.status == 200 else None
        large = [server.post("/v1/responses", {"input": "a", "max_output_tokens": 1, "metadata": {"m": "x" * 4 * MIB}}).status
                 for _ in range(lab.of(4, 30))]
        check(set(large) <= {200, 400, 413}, f"large metadata got {set(large)}")
        grown = server.rss() - base
        check(grown < 300 * MIB, f"{mib(grown)} for {count} responses")
        return f"{count} responses, and {len(large)} with 4 MiB of metadata ({large[0]}): {mib(grown)}"


def schemas(lab):
    """Compiled schemas are kept within a bound; always new ones do not fill the memory."""
    with lab.server(["-q"]) as server:
        server.complete("a")
        base, count = server.rss(), lab.of(40, 1200)

        def ask(i):
            pattern = f"^[a-z]{{{i % 300 + 50},{i % 300 + 250}}}x{i}$"
            schema = {"type": "object", "properties": {f"p{k}": {"type": "string", "pattern": pattern} for k in range(12)}}
            return server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 3,
                                                        "guided_json": schema}, timeout=120).status
        statuses = set(at_once(range(count), ask, 2))
        check(statuses <= {200, 400}, f"schemas got {statuses}")
        grown = server.rss() - base
        check(grown < 350 * MIB, f"{count} schemas: {mib(grown)}")
        return f"{count} schemas ({statuses}): {mib(grown)}"


def pins(lab):
    """Breakpoints keep a bounded part of the cache, and one more costs the same however many there are."""
    blocks = lab.of(20_000, 60_000)
    flags = ["--block-size", "1", "--kv-memory", str(blocks * BYTES_PER_TOKEN), "-q"]
    with lab.server(flags) as server:
        def pin(i, size):
            part = lambda k: {"type": "text", "text": words(size // 4, 4 * i + k), "prompt_cache_breakpoint": {"mode": "explicit"}}
            body = {"messages": [{"role": "user", "content": [part(k) for k in range(4)]}], "max_tokens": 1}
            reply = server.post("/v1/chat/completions", body)
            check(reply.status == 200, reply.says())

        def cost(first):
            rounds = []
            for r in range(5):
                begin = server.cpu_seconds()
                for i in range(25):
                    pin(first + 25 * r + i, 24)
                rounds.append(server.cpu_seconds() - begin)
            return statistics.median(rounds) / 25

        few = cost(0)
        for i in range(blocks // 1400):
            pin(10_000 + i, 1000)
        pinned = server.total("kvasir:kv_pinned_blocks")
        many = cost(500)
        check(pinned <= 0.55 * blocks, f"{pinned:.0f} of {blocks} blocks are pinned")
        said = f"{1000 * few:.1f} -> {1000 * many:.1f} ms of CPU a request with {pinned:.0f} pinned blocks"
        check(many <= 1.25 * few + 0.001, said)
        check(server.complete(ids(CONTEXT - 8, 3), timeout=30).status == 200, "")
        return said


ATTACKS = [
    Attack("logit_bias", logit_bias, measures=True),
    Attack("multiplied", multiplied, measures=True, quick=False),
    Attack("swap memory", swap_memory, quick=False, measures=True),
    Attack("half-sent bodies", half_sent_bodies, measures=True),
    Attack("unread streams", unread_streams, measures=True, quick=False),
    Attack("given back", given_back, measures=True),
    Attack("records", records, quick=False, measures=True),
    Attack("kept responses", responses, measures=True, seconds=300),
    Attack("schemas", schemas, measures=True, seconds=900),
    Attack("pins", pins, quick=False, measures=True, seconds=600),
]
