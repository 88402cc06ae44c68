#!/usr/bin/env python3
"""How far kvasir plan --trace is off: loads of three shapes on a real server, whose trace is then asked again.

    python3 bench/replay_error.py [--kvasir build/kvasir] [--seconds 40] [--keep FOLDER]

Each shape runs on a server of its own, with too little memory for all of it. The server's metrics say what happened;
a table compares them with the replay. No shape was used to build the replay or its costs: each brings its own."""
import argparse
import concurrent.futures
import http.client
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

WORDS = ("the fox a garden was old and river stone king her little boat found light under door who had never "
         "been lost before winter came with an apple tree song").split()
ROWS = ("hit_rate", "reused_tokens", "computed_tokens", "preemptions", "waits", "queue_p95", "first_token_p50",
        "first_token_p95", "answer_tokens_per_second")


def words(rng, count):
    return " ".join(rng.choice(WORDS) for _ in range(count))


class Server:
    def __init__(self, kvasir, trace, memory):
        self.process = subprocess.Popen([kvasir, "serve", "--port", "0", "--kv-memory", memory, "--trace", trace, "-q"],
                                        stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "http://" in line:
                self.address = line.split("http://")[1].split()[0].strip('/"')
                break

    def ask(self, prompt, tokens):
        connection = http.client.HTTPConnection(self.address, timeout=300)
        body = json.dumps({"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True})
        connection.request("POST", "/v1/completions", body)
        answer = json.loads(connection.getresponse().read())
        return answer["choices"][0]["text"]

    def metrics(self):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
        return {line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in page.splitlines()
                if line and line[0] != "#"}

    def end(self):
        self.process.terminate()
        self.process.wait()


def chats(server, end, rng):
    """Conversations that grow turn by turn, behind one of three beginnings."""
    while time.time() < end:
        text = f"Tales of number {rng.randrange(3)}. " + words(random.Random(rng.randrange(3)), 120)
        for _ in range(rng.randrange(2, 7)):
            text += "\n" + words(rng, rng.randrange(5, 40))
            text += server.ask(text, rng.randrange(10, 80))
            time.sleep(rng.expovariate(4))
            if time.time() > end:
                return


def documents(server, end, rng):
    """Long prompts that hardly anybody asks again, with short answers."""
    while time.time() < end:
        text = words(random.Random(rng.randrange(12)), rng.randrange(300, 700))
        server.ask(text + " " + words(rng, 10), rng.randrange(1, 12))
        time.sleep(rng.expovariate(3))


def bursts(server, end, rng):
    """All at once, and then nobody: long answers that need more room than there is."""
    while time.time() < end:
        server.ask(f"Number {rng.randrange(1000)}: " + words(rng, rng.randrange(10, 60)), rng.randrange(150, 400))
        time.sleep(max(0, 6 - time.time() % 6))


SHAPES = ((chats, 10, "12MB"), (documents, 6, "16MB"), (bursts, 12, "14MB"))


def run(shape, clients, memory, args, folder):
    trace = str(folder / f"{shape.__name__}.jsonl")
    pathlib.Path(trace).unlink(missing_ok=True)  # else it would be continued
    server = Server(args.kvasir, trace, memory)
    end = time.time() + args.seconds
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        for job in [pool.submit(shape, server, end, random.Random(seed)) for seed in range(clients)]:
            job.result()
    metrics = server.metrics()
    server.end()
    told = json.loads(subprocess.run([args.kvasir, "plan", "--json", "--trace", trace], check=True,
                                     capture_output=True, text=True).stdout)
    measured = told["measured"]
    pairs = (("reused_tokens", "vllm:prefix_cache_hits_total"), ("prompt_tokens", "vllm:prefix_cache_queries_total"),
             ("preemptions", "vllm:num_preemptions_total"))
    for ours, metric in pairs:
        if measured[ours] != metrics[metric]:
            print(f"{shape.__name__}: {ours} is {measured[ours]} in the trace and {metrics[metric]} in the metrics")
    return told


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kvasir", default="build/kvasir")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--keep", help="a folder for the traces")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(args.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        told = {shape.__name__: run(shape, clients, memory, args, folder) for shape, clients, memory in SHAPES}
    print("| | " + " | ".join(f"{name}: measured | foretold | error" for name in told) + " |")
    print("|---|" + "---:|" * (3 * len(told)))
    for row in ("requests", "prompt_tokens") + ROWS:
        cells = []
        for one in told.values():
            error = one["error"].get(row)
            cells += [f"{one['measured'][row]:.4g}", f"{one['foretold'][row]:.4g}",
                      "" if error is None else f"{100 * error:+.1f}%"]
        print(f"| {row} | " + " | ".join(cells) + " |")
    for name, one in told.items():
        faster = one["foretold"]["seconds"] / one["replay_seconds"]
        print(f"{name}: {one['foretold']['steps']} steps, {one['replay_seconds']:.3f} s, {faster:.0f} times real time")


if __name__ == "__main__":
    sys.exit(main())
