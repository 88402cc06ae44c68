#!/usr/bin/env python3
"""How long a chat's next turn waits for its first token behind a long text, beside llama.cpp's server.

    python3 bench/second_turn.py MODEL.gguf --peer llama-server [--tokens 4000] [--rounds 3] [--threads 2]

Both servers run on loopback from one file, and are asked in turns; prompts are token ids, other ones in each round, so
that nothing is found by chance. Three requests a round, one behind the other:

    first    a text of so many tokens, answered with 32
    goes on  the text, that answer and 24 more: what a chat without thoughts asks next
    dropped  the text and 32 others: a template has dropped what was thought, and the answer is not where it was

Medians of the times to the first event of the stream, and how many times sooner ours came.
"""
import argparse
import http.client
import json
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
KINDS = ["first", "goes on", "dropped"]


class Server:
    def __init__(self, name, command, port):
        self.name, self.port = name, port
        self.process = subprocess.Popen([str(a) for a in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self):
        for _ in range(600):
            try:
                if self.connect("GET", "/health").status == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                raise SystemExit(f"{self.name} ended with {self.process.returncode}: {self.process.args}")
            time.sleep(0.2)
        raise SystemExit(f"{self.name} was not ready within two minutes")

    def connect(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request(method, path, body, {"content-type": "application/json"})
        return connection.getresponse()

    def ask(self, prompt, tokens):
        """Seconds to the first event, and the answer's text."""
        body = {"model": "any", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True,
                "ignore_eos": True, "cache_prompt": True}
        start, first, text = time.monotonic(), None, ""
        response = self.connect("POST", "/v1/completions", json.dumps(body))
        if response.status != 200:
            raise SystemExit(f"{self.name}: {response.status} {response.read()[:300]}")
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event.get("choices"):
                first = first or time.monotonic() - start
                text += event["choices"][0].get("text") or ""
        return first, text


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def round_of(server, tokens, seed):
    draw = random.Random(seed)
    ids = lambda count: [draw.randrange(1000, 30000) for _ in range(count)]
    text, more, other = ids(tokens), ids(24), ids(32)
    first, answer = server.ask(text, 32)
    answer_ids = [int(one) for one in re.findall(r"t(\d+)", answer)]  # its tokenizer spells token 1234 "t1234"
    goes_on, _ = server.ask(text + answer_ids + more, 8)
    dropped, _ = server.ask(text + other, 8)
    return [first, goes_on, dropped]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--peer", required=True, help="llama.cpp's llama-server")
    parser.add_argument("--tokens", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and its servers with it
    ports, context = [free_port(), free_port()], options.tokens + 512
    servers = [
        Server("Kvasir", [ROOT / "build" / "kvasir", "serve", "-m", options.model, "--port", ports[0], "-t",
                          options.threads, "--ctx-size", context], ports[0]),
        Server("llama.cpp", [options.peer, "-m", options.model, "--port", ports[1], "-t", options.threads, "-c", context,
                             "-np", 1], ports[1])]
    try:
        times = {server.name: [] for server in servers}
        for server in servers:
            server.wait()
        for seed in range(options.rounds):
            for server in servers:
                times[server.name].append(round_of(server, options.tokens, seed))
    finally:
        for server in servers:
            server.process.kill()
            server.process.wait()
    print("| seconds to the first token | Kvasir | llama.cpp | times sooner |\n|---|---:|---:|---:|")
    for i, kind in enumerate(KINDS):
        ours, theirs = (statistics.median(one[i] for one in times[server.name]) for server in servers)
        print(f"| {kind} | {ours:.3f} | {theirs:.3f} | {theirs / ours:.1f} |")


if __name__ == "__main__":
    main()
