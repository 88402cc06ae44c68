"""A log that cannot be written is lost; the server is not. Nor is it by memory or swap that the system refuses."""
import contextlib
import http.client
import os
import resource
import signal
import socket
import time

from attack import Attack, BYTES_PER_TOKEN, CONTEXT, MIB, at_once, check, ids, wait_until

PRESSED = ["--kv-memory", str(CONTEXT * BYTES_PER_TOKEN), "--swap-memory", str(8 * MIB)]  # long answers must pause


def twice_on_one_connection(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=15)
    with contextlib.closing(connection):
        for turn in range(3):
            connection.request("POST", "/v1/completions", b'{"prompt":"a","max_tokens":2}', server.headers(None))
            reply = connection.getresponse()
            reply.read()
            check(reply.status == 200, f"request {turn} of a connection got {reply.status}")


def pressed(server, count=12):
    """Answers that do not fit all at once: some pause, which is logged, and all come."""
    at_once(range(count), lambda i: server.complete(ids(100, i), timeout=60, max_tokens=150, ignore_eos=True), count)
    check(server.total("kvasir:pauses_total") > 0, "nothing was paused")


def full_disk(lab):
    with open("/dev/full", "wb") as full, lab.server(PRESSED, stderr=full) as server:
        twice_on_one_connection(server)
        pressed(server)
        server.raw(b"nonsense\r\n\r\n", 2)
        twice_on_one_connection(server)
        return f"{server.total('kvasir:pauses_total'):.0f} pauses, all answered, and no line of log"


def limited_log(lab):
    """A log that may not grow for a while, which is a signal by default, has a gap and goes on."""
    with lab.server(PRESSED) as server:
        before = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        size = server.log_path.stat().st_size
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, before[1]))
        twice_on_one_connection(server)
        pressed(server)
        check(server.log_path.stat().st_size == size, "the limit did not hold")
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, before)
        twice_on_one_connection(server)
        check(wait_until(lambda: server.log_path.stat().st_size > size, 5), "nothing is logged any more")
        return "all answered, and the log goes on"


def dead_reader(lab):
    reader, writer = os.pipe()
    with open(writer, "wb") as log, lab.server(PRESSED, stderr=log) as server:
        os.close(reader)
        twice_on_one_connection(server)
        pressed(server)
        return f"{server.total('kvasir:pauses_total'):.0f} pauses, all answered, and nobody reads the log"


def stalled_reader(lab):
    """A reader that stops reading fills its pipe. Whoever waits for it then must not be the engine."""
    reader, writer = os.pipe()
    with open(reader, "rb"), open(writer, "wb") as log, lab.server(PRESSED, stderr=log) as server:
        for i in range(1200):  # a pipe holds 64 KiB, and a line has more than 100 bytes
            check(server.get("/v1/models", timeout=10).status == 200, f"request {i}")
        twice_on_one_connection(server)
        pressed(server)
        return "1,200 lines of log that nobody reads, all answered"


def limit_memory(server, more):
    """The server gets so many bytes of address space beyond what it has now."""
    with open(f"/proc/{server.pid}/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.prlimit(server.pid, resource.RLIMIT_AS, (size + more, resource.RLIM_INFINITY))


def refused_swap(lab):
    """Where there is no memory to swap to, requests are computed again."""
    flags = ["--kv-memory", str(CONTEXT * BYTES_PER_TOKEN), "--swap-memory", str(64 * MIB)]
    with lab.server(flags) as server:
        at_once(range(4), lambda i: server.complete(ids(20, i), max_tokens=5), 4)
        limit_memory(server, 4 * MIB)
        pressed(server, 16)
        return f"{server.total('kvasir:pauses_total'):.0f} pauses without memory to swap to, all answered"


def refused_memory(lab):
    """A request for which there is no memory is refused; those beside it, and after it, are answered."""
    with lab.server() as server:
        want = server.complete("Once upon a time", max_tokens=20).json["choices"][0]["text"]
        at_once(range(8), lambda i: server.complete(ids(200, i), max_tokens=20), 8)
        limit_memory(server, 48 * MIB)
        text = "Once upon a time there was. " * 250_000
        bias = {str(i): 1 for i in range(300)}
        hostile = [("/v1/completions", {"prompt": text}), ("/tokenize", {"content": text, "with_pieces": True}),
                   ("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], "max_tokens": 1}),
                   ("/v1/completions", {"prompt": "a", "n": 128, "logit_bias": bias, "max_tokens": 8}),
                   ("/v1/completions", {"prompt": ["a"] * 10, "n": 100, "logit_bias": bias, "max_tokens": 8}),
                   ("/v1/responses", {"input": [{"role": "user", "content": "a" * 100}] * 20_000})]
        got = []

        def attack(pair):
            try:
                got.append(server.post(*pair, timeout=60).status)
            except (ConnectionError, http.client.HTTPException):
                got.append(0)  # closed: there was no memory to answer with
        at_once(hostile * lab.of(1, 4), attack, 3)
        limit_memory(server, 4096 * MIB)
        check(server.alive(), f"statuses {got}")
        for _ in range(3):
            text = server.complete("Once upon a time", max_tokens=20).json["choices"][0]["text"]
            check(text == want, f"{text!r} instead of {want!r}")
        return f"{len(got)} requests for which there was no memory got {sorted(set(got))}; the next are answered"


def few_descriptors(lab):
    """Out of descriptors, connections wait or are refused; later all is well again."""
    with lab.server() as server:
        server.complete("a")
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (40, 40))
        sockets = []
        for _ in range(100):
            with contextlib.suppress(OSError):
                sockets.append(socket.create_connection(("127.0.0.1", server.port), timeout=1))
        time.sleep(0.5)
        before = server.cpu_seconds()
        time.sleep(1)
        busy = server.cpu_seconds() - before
        for sock in sockets:
            sock.close()
        check(server.complete("b", timeout=20).status == 200, "")
        check(busy < 0.8, f"{busy:.1f} s of CPU in a second of waiting for a descriptor")
        return f"100 connections with 40 descriptors, {busy:.2f} s of CPU a second meanwhile"


def hangups(lab):
    """SIGHUP again and again, with broken keys files among them: who had a key keeps it."""
    with lab.server(tenants={"alice": (), "bob": ()}) as server:
        good = server.keys_file.read_bytes()
        broken = [b"", b"{", b"[]", b'{"tenants":' + b"[" * 100_000, b"\xff" * 1000, good[: len(good) // 2], good.replace(b"alice", b"")]
        for i in range(lab.of(40, 400)):
            server.keys_file.write_bytes(broken[i // 2 % len(broken)] if i % 2 else good)
            server.process.send_signal(signal.SIGHUP)
            check(server.complete(f"text {i}", "alice").status == 200, "")
        server.keys_file.unlink()
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        check(server.complete("b", "bob").status == 200, "")
        return "alice and bob are answered throughout"


ATTACKS = [
    Attack("full log disk", full_disk),
    Attack("limited log", limited_log, quick=False),
    Attack("dead log reader", dead_reader),
    Attack("stalled log reader", stalled_reader, quick=False),
    Attack("refused swap", refused_swap, quick=False, measures=True),
    Attack("refused memory", refused_memory, measures=True),
    Attack("few descriptors", few_descriptors),
    Attack("hangups", hangups),
]
