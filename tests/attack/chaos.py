"""One server, load whose answers are known, and calamities: before, during and after each one the laws hold.

A calamity is a value: what begins it and ends it, and which statuses a request may be refused with meanwhile. Whatever it is, no answer is
wrong, no connection is cut, and afterwards the server is as it was: it answers everything, and its
descriptors and memory are back.

Clock jumps are not among them: the system's clock belongs to the whole machine, and a time namespace moves only the steady one, once.
"""
import contextlib
import dataclasses
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time

from answers import check_answers, known_answers, leave
from attack import Attack, Crowd, Failure, MIB, check, ids, mib, wait_until
from logs import limit_memory

TENANTS = {"alice": ("--guaranteed", "20%"), "bob": ("--weight", "3"), "op": ("--operator",)}
# Long answers pause, and swap what they had: the calamities meet all of the engine's paths.
FLAGS = ["--kv-memory", str(7 * MIB), "--swap-memory", str(4 * MIB), "--kv-allow", "any"]


@dataclasses.dataclass(frozen=True)
class Scene:
    server: object
    reader: subprocess.Popen  # of its log
    questions: list


@dataclasses.dataclass(frozen=True)
class Calamity:
    name: str
    happens: object       # of a Scene; gives a context manager
    refusals: tuple = ()  # statuses that requests may get meanwhile


@contextlib.contextmanager
def repeated(act, pause):
    """act(turn) again and again in a thread of its own."""
    stop = threading.Event()

    def run():
        turn = 0
        while not stop.is_set():
            act(turn)
            turn += 1
            stop.wait(pause)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def quiet(scene):
    yield


def stopped(scene):
    def act(turn):
        scene.server.process.send_signal(signal.SIGSTOP)
        time.sleep(0.15)
        scene.server.process.send_signal(signal.SIGCONT)
    return repeated(act, 0.2)


def hangups(scene):
    good = scene.server.keys_file.read_bytes()

    def act(turn):
        scene.server.keys_file.write_bytes([good, b"{", good[: len(good) // 2], b"[" * 10_000][turn % 4])
        scene.server.process.send_signal(signal.SIGHUP)
    return repeated(act, 0.03)


def limited(what, amount):
    @contextlib.contextmanager
    def happens(scene):
        before = resource.prlimit(scene.server.pid, what)
        resource.prlimit(scene.server.pid, what, (amount, before[1]))
        try:
            yield
        finally:
            resource.prlimit(scene.server.pid, what, before)
    return happens


@contextlib.contextmanager
def no_memory(scene):
    before = resource.prlimit(scene.server.pid, resource.RLIMIT_AS)
    limit_memory(scene.server, 2 * MIB)
    try:
        yield
    finally:
        resource.prlimit(scene.server.pid, resource.RLIMIT_AS, before)


def vanishing(scene):
    draw = random.Random(9)

    def act(i, turn):
        leave(scene.server, draw.choice(scene.questions), draw.choice(["alice", "bob"]), draw)
    return Crowd(4, act)


def hostile(scene):
    wide = json.dumps({"prompt": "a", "max_tokens": 1, "x": [{}] * 20_000})
    bodies = [wide, '{"a":' * 100_000, "\x00", "[" * 1000, json.dumps({"prompt": ["a"] * 10, "n": 128, "max_tokens": 1}),
              json.dumps({"prompt": ids(3000, 1)}), json.dumps({"prompt": "a", "kv": "x" * 100_000}),
              json.dumps({"prompt": "a", "max_tokens": 1, "guided_json": {"type": "string", "pattern": "^.*a.{12}$"}})]

    def act(i, turn):
        scene.server.post("/v1/completions", bodies[(turn + i) % len(bodies)], "bob", timeout=60)
    return Crowd(2, act)


@contextlib.contextmanager
def unread_log(scene):
    scene.reader.send_signal(signal.SIGSTOP)
    for _ in range(700):  # what a pipe holds
        check(scene.server.get("/v1/models", "alice", timeout=10).status == 200, "/v1/models while nobody reads the log")
    yield


@contextlib.contextmanager
def dead_log(scene):
    scene.reader.kill()
    scene.reader.wait()
    yield


CALAMITIES = [
    Calamity("nothing", quiet),
    Calamity("SIGSTOP and SIGCONT", stopped),
    Calamity("broken keys and SIGHUP", hangups),
    Calamity("clients that vanish", vanishing, refusals=(429,)),
    Calamity("hostile bodies", hostile),
    Calamity("16 descriptors", limited(resource.RLIMIT_NOFILE, 16)),
    Calamity("no files may grow", limited(resource.RLIMIT_FSIZE, 0)),
    Calamity("no more memory", no_memory, refusals=(500, 503)),
    Calamity("nobody reads the log", unread_log),
    Calamity("the log's reader is dead", dead_log),
    Calamity("nothing again", quiet),
]


def at_rest(server):
    return server.total("vllm:num_requests_running") + server.total("vllm:num_requests_waiting") == 0


def settled(server, fds, rss):
    check(server.get("/health", timeout=10).status == 200, "/health")
    check(wait_until(lambda: at_rest(server), 30), "requests still run")
    check(wait_until(lambda: server.fds() <= fds + 2, 10), f"{server.fds()} descriptors, {fds} before")
    check(server.rss() < rss * 1.1 + 64 * MIB, f"{mib(server.rss())} of memory, {mib(rss)} before")


def chaos(lab):
    """All calamities in turn on one server."""
    questions, answers = known_answers(lab, 11, lab.of(60, 200))
    share = lab.of(16, len(questions))
    reader = subprocess.Popen([sys.executable, "-c", "import sys\nfor line in sys.stdin.buffer: pass"], stdin=subprocess.PIPE)
    equal = refused = 0
    try:
        with lab.server(FLAGS, TENANTS, stderr=reader.stdin) as server:
            reader.stdin.close()
            check_answers(server, questions[:20], answers[:20], 8, ["alice", "bob"])
            wait_until(lambda: at_rest(server), 10)
            fds, rss = server.fds(), server.rss()
            for turn, calamity in enumerate(CALAMITIES):
                order = random.Random(turn).sample(range(len(questions)), share)
                asked, known = [questions[i] for i in order], [answers[i] for i in order]
                try:
                    with calamity.happens(Scene(server, reader, questions)):
                        done = check_answers(server, asked, known, 12, ["alice", "bob"], calamity.refusals)
                    settled(server, fds, rss)
                except Exception as error:
                    raise Failure(f"{calamity.name}: {type(error).__name__}: {error}") from error
                equal, refused = equal + done[0], refused + done[1]
            pauses = server.total("kvasir:pauses_total")
    finally:
        reader.kill()
        reader.wait()
    check(equal > 8 * share, f"{refused} of {equal + refused} refused")
    return f"{len(CALAMITIES)} calamities, {equal} answers equal, {refused} refused, {pauses:.0f} pauses"


def full_log(lab):
    """The same load with a log on a full disk from the first line on."""
    questions, answers = known_answers(lab, 11, lab.of(60, 200))
    with open("/dev/full", "wb") as full, lab.server(FLAGS, TENANTS, stderr=full) as server:
        equal, _ = check_answers(server, questions, answers, 12, ["alice", "bob"])
        check(server.process.poll() is None and wait_until(lambda: at_rest(server), 10), "requests still run")
        return f"{equal} answers equal, {server.total('kvasir:pauses_total'):.0f} pauses"


def drained(lab):
    """SIGTERM under load: what runs is answered, and the server ends with 0."""
    questions, answers = known_answers(lab, 11, lab.of(60, 200))
    with lab.server(FLAGS, TENANTS) as server:
        server.may_end = True
        with Crowd(24, lambda i, turn: check_answers(server, [questions[i]], [answers[i]], 1, ["alice"]), forever=False) as crowd:
            time.sleep(0.2)
            server.process.send_signal(signal.SIGTERM)
            crowd.join(60)
        wrong = [error for error in crowd.errors if isinstance(error, Failure)]
        check(not wrong, str(wrong[:1]))
        check(wait_until(lambda: not server.alive(), 30), "it does not end")
        check(server.process.returncode == 0, f"exit code {server.process.returncode}")
        return f"{len(crowd.results)} answers equal, exit code 0"


ATTACKS = [
    Attack("chaos", chaos, seconds=900, measures=True),
    Attack("full log", full_log, quick=False, seconds=300),
    Attack("drained", drained, quick=False, seconds=300),
]
