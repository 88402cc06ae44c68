"""Bytes on the wire: one request is one request, whatever its headers say, and clients that dawdle hurt nobody."""
import re
import socket
import time

from attack import Attack, Failure, check, check_health, health_times, ids, wait_until

BODY = b'{"prompt":"a","max_tokens":1}'
INNER = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def head(*lines, target=b"/v1/completions", host=b"Host: localhost\r\n"):
    return b"POST " + target + b" HTTP/1.1\r\n" + host + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def statuses(said):
    return [int(code) for code in re.findall(rb"(?:^|\r\n\r\n|\}|\n)HTTP/1\.1 (\d+)", said)]


def smuggling(lab):
    """A body is never read as the next request. What says how long it is in a way we do not know is refused, and closed."""
    chunked = b"0\r\n\r\n" + INNER
    codings = [b"xchunked", b"identity", b'"chunked"', b"chunked, identity", b"gzip, chunked", b"chunked, chunked", b"gzip", b"",
               b"chunked;q=1", b"chunke", b"chunked\x0b", b"\x0bchunked", b"deflate", b"identity, chunked", b",", b"chunked, gzip"]
    tries = [(b"Transfer-Encoding: " + coding, head(b"Transfer-Encoding: " + coding) + chunked) for coding in codings]
    tries += [(b"%s and %s" % pair, head(*pair) + chunked) for pair in [
        (b"Transfer-Encoding: chunked", b"Content-Length: 5"), (b"Content-Length: 5", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"), (b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked")]]
    tries += [(line, head(line) + INNER) for line in [
        b"Content-Length: +0", b"Content-Length: -1", b"Content-Length: 0x0", b"Content-Length: 0, 1", b"Content-Length:",
        b"Content-Length: 99999999999999999999", b"Content-Length : 0", b"Content-Length\x00: 0", b"Content-Length: 0\r\nContent-Length: 4"]]
    with lab.server() as server:
        for name, data in tries:
            said = server.raw(data, timeout=3)
            got = statuses(said)
            check(len(got) == 1 and 400 <= got[0] <= 501, f"{name.decode(errors='replace')!r} got {got}")
        check(server.get("/health").status == 200, "/health")
        return f"{len(tries)} ways to hide a request in a body: each one reply, refused and closed"


def hosts(lab):
    """One Host; an absolute target is served as its path is."""
    with lab.server() as server:
        two = server.raw(head(b"Content-Length: 29", host=b"Host: localhost\r\nHost: evil.example\r\n") + BODY, 1)
        check(statuses(two) == [400], f"two Host headers got {statuses(two)}")
        none = server.raw(head(b"Content-Length: 29", host=b"") + BODY, 1)
        check(statuses(none) == [400], f"no Host header got {statuses(none)}")
        target = b"http://localhost:%d/health" % server.port
        absolute = server.raw(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 3)
        check(statuses(absolute) == [200], f"an absolute target got {statuses(absolute)}")
        foreign = server.raw(b"GET http://evil.example/props HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 3)
        check(statuses(foreign) and statuses(foreign)[0] in (400, 403, 421), f"a foreign absolute target got {statuses(foreign)}")
        return "two hosts, none, and absolute targets"


def header_games(lab):
    """Malformed requests get one refusal or a close, never a 500, a hang or a second reply."""
    long = b"A" * 40_000
    tries = {
        "nothing": b"\r\n\r\n\r\n", "no version": b"GET /\r\n\r\n", "HTTP/9": b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(60), "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "NUL": b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n", "long target": b"GET /" + long + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "long header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + long + b"\r\n\r\n", "long method": long + b" / HTTP/1.1\r\n\r\n",
        "many headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 8_000 + b"\r\n",
        "folded": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", "colon": b"GET / HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n",
        "bare CR": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n", "binary": bytes(range(256)) * 40,
        "huge chunk": head(b"Transfer-Encoding: chunked") + b"ffffffffffffffff\r\n", "chunk sign": head(b"Transfer-Encoding: chunked") + b"-1\r\n",
        "chunk text": head(b"Transfer-Encoding: chunked") + b"zz\r\n",
        "chunk extension": head(b"Transfer-Encoding: chunked") + b"1;" + long + long + b"\r\n",
    }
    with lab.server() as server:
        for name, data in tries.items():
            got = statuses(server.raw(data + b"Connection: close\r\n\r\n", timeout=2))
            check(len(got) <= 2 and all(code < 500 or code in (501, 505) for code in got), f"{name} got {got}")
        check(server.get("/health").status == 200, "/health")
        return f"{len(tries)} malformed requests"


def dawdlers(lab):
    """Half-sent heads, clients that do not read and clients that leave: others are served, and nothing is left behind."""
    count = lab.of(100, 400)
    with lab.server() as server:
        server.complete("a")
        fds = server.fds()
        sockets = []
        try:
            for i in range(count):
                sock = socket.create_connection(("127.0.0.1", server.port), timeout=5)
                sockets.append(sock)
                if i % 3 == 0:
                    sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: loc")
                elif i % 3 == 1:
                    body = b'{"prompt":"a","max_tokens":200,"stream":true,"ignore_eos":true}'
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                    sock.sendall(head(b"Content-Length: %d" % len(body)) + body)
            health = check_health(health_times(server, 1))
            check(server.complete(ids(30, 1), timeout=30).status == 200, "")
        finally:
            for sock in sockets:
                sock.close()
        gone = wait_until(lambda: server.fds() <= fds + 2 and server.total("vllm:num_requests_running") == 0, 20)
        check(gone, f"{server.fds() - fds} descriptors and {server.total('vllm:num_requests_running'):.0f} requests stay")
        return f"beside {count} dawdlers {health}"


def slow_drip(lab):
    """One byte a second is not a way to hold a place for ever: heads are read in 10 s."""
    with lab.server() as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
            begin = time.monotonic()
            try:
                for byte in b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaa":
                    sock.sendall(bytes([byte]))
                    time.sleep(0.4)
            except OSError:
                return f"closed after {time.monotonic() - begin:.1f} s"
            raise Failure("a head that drips is read for ever")


ATTACKS = [
    Attack("smuggling", smuggling),
    Attack("hosts", hosts),
    Attack("header games", header_games),
    Attack("dawdlers", dawdlers, measures=True),
    Attack("slow drip", slow_drip, quick=False),
]
