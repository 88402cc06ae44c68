"""What every attack stands on: a server of its own, clients, measures, and one way to fail.

An attack is a value: a name, the parts it belongs to and a function of a Lab. It returns what it measured, in a line,
or raises Failure. All of them are bounded: each socket by a timeout, each attack by `seconds`, and a server
ends with the block that started it, whatever happened in there.
"""
import contextlib
import ctypes
import dataclasses
import http.client
import json
import os
import pathlib
import queue
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "tales"
CONTEXT = 2048           # of that model
BYTES_PER_TOKEN = 5120   # of its K and V in f16
MIB = 1 << 20


class Failure(Exception):
    """The server did what it must not do."""


@dataclasses.dataclass(frozen=True)
class Attack:
    name: str
    run: object             # of a Lab; returns what was measured
    seconds: float = 120    # after which it has failed
    quick: bool = True      # a part of ./kvasir test, not only of ./kvasir test long
    measures: bool = False  # time or memory: says nothing about a build with sanitizers


def check(holds, what):
    if not holds:
        raise Failure(what)


@dataclasses.dataclass
class Reply:
    status: int
    headers: dict
    body: bytes
    seconds: float

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def usage(self):
        return self.json["usage"]

    @property
    def cached(self):
        return self.usage["prompt_tokens_details"]["cached_tokens"]

    def says(self):
        return f"{self.status} {self.body[:200].decode(errors='replace')}"


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Server:
    """kvasir serve on a free loopback port. Tenants are names with the options that `kvasir keys add` takes."""

    def __init__(self, program, folder, flags=(), tenants=None, stderr=None, **options):
        self.folder = pathlib.Path(folder)
        self.keys_file = self.folder / "keys.json"
        self.log_path = self.folder / "server.log"
        self._keys = {name: self.add_tenant(program, name, shares) for name, shares in (tenants or {}).items()}
        self.may_end = False  # an attack that ends it says so
        self._operator = next((name for name, shares in (tenants or {}).items() if "--operator" in shares), None)
        self.port = options.get("port") or free_port()
        command = [program, "serve", "-m", str(options.get("model", MODEL)), "--port", str(self.port), *flags]
        if tenants:
            command += ["--keys", str(self.keys_file)]
        own = None if stderr is not None else open(self.log_path, "wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=stderr if stderr is not None else own, preexec_fn=_die_with_parent)
        if own:
            own.close()
        self.pid = self.process.pid
        self._await(options.get("start_seconds", 60))

    def _await(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            check(self.alive(), f"the server did not start, exit code {self.process.returncode}: {self.last_words()}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.get("/health", timeout=5).status == 200:
                    return
            time.sleep(0.05)
        raise Failure(f"the server was not ready after {seconds} s: {self.last_words()}")

    def add_tenant(self, program, name, shares=()):
        done = subprocess.run([program, "keys", "add", name, "--file", str(self.keys_file), *shares],
                              capture_output=True, text=True, check=True, timeout=30)
        return done.stdout.strip()

    # --- asking ---

    def headers(self, tenant):
        return {"Content-Type": "application/json", **({"Authorization": f"Bearer {self._keys[tenant]}"} if tenant else {})}

    def request(self, method, path, body=None, tenant=None, timeout=60, headers=None):
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        begin = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body.encode() if isinstance(body, str) else body,
                               {**self.headers(tenant), **(headers or {})})
            reply = connection.getresponse()
            return Reply(reply.status, dict(reply.getheaders()), reply.read(), time.monotonic() - begin)
        except TimeoutError as error:
            raise Failure(f"{method} {path}{' of ' + tenant if tenant else ''}: no answer in {timeout} s") from error
        finally:
            connection.close()

    def post(self, path, body, tenant=None, timeout=60, **more):
        return self.request("POST", path, body, tenant, timeout, **more)

    def get(self, path, tenant=None, timeout=60):
        return self.request("GET", path, None, tenant, timeout)

    def complete(self, prompt, tenant=None, timeout=60, **more):
        """A greedy completion that is answered; prompt is a text, or token ids."""
        reply = self.post("/v1/completions", {"prompt": prompt, "max_tokens": 1, "temperature": 0, **more}, tenant, timeout)
        check(reply.status == 200, f"a completion got {reply.says()}")
        return reply

    def stream(self, prompt, tokens, tenant=None, timeout=60):
        """The seconds between the tokens of one streamed answer, the time to the first one left out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), self.headers(tenant))
            reply = connection.getresponse()
            check(reply.status == 200, f"a stream got {reply.status}")
            times = [time.monotonic() for line in reply if line.startswith(b"data: {")]
            return [b - a for a, b in zip(times, times[1:])]
        finally:
            connection.close()

    def raw(self, data, timeout=10):
        """All that the server says to these bytes until it closes, or is silent for the timeout."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as sock:
            said = b""
            with contextlib.suppress(TimeoutError, ConnectionError):
                sock.sendall(data)
                while piece := sock.recv(1 << 16):
                    said += piece
            return said

    def metrics(self, tenant=None):
        """Every sample of /metrics by its name and labels, as a tenant, else an operator, sees them."""
        lines = self.get("/metrics", tenant or self._operator).body.decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))}

    def total(self, name, tenant=None):
        return sum(value for key, value in self.metrics(tenant).items() if key.split("{")[0] == name)

    def max_rss(self):
        return self._status("VmHWM")

    # --- looking at the process ---

    def alive(self):
        return self.process.poll() is None

    def _status(self, field):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        raise Failure(f"/proc/{self.pid}/status has no {field}: has the server ended?")

    def rss(self):
        return self._status("VmRSS")

    def mapped(self):
        return self._status("VmData")

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def last_words(self):
        if not self.log_path.exists():
            return "(its log is elsewhere)"
        return " | ".join(self.log_path.read_text(errors="replace").splitlines()[-2:])[-300:]

    def cut(self):
        """Ends it with what still runs, where all has been measured."""
        check(self.alive(), "")
        self.may_end = True
        self.end()

    def end(self):
        """Ends it, and tells its exit code if it had ended by itself."""
        code = self.process.poll()
        if code is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait(30)
        return code


class Lab:
    """What an attack is given: a program to start servers of, and how thorough to be."""

    def __init__(self, program, long=False):
        self.program = str(pathlib.Path(program).resolve())
        self.long = long

    def of(self, quick, long):
        return long if self.long else quick

    @contextlib.contextmanager
    def server(self, flags=(), tenants=None, **options):
        with tempfile.TemporaryDirectory(prefix="kvasir-attack-") as folder:
            server = None
            try:
                server = Server(self.program, folder, flags, tenants, **options)
                yield server
                check(server.alive() or server.may_end, "")
            except Exception as error:
                if server is not None and not wait_until(server.alive, 0.2, still=True):
                    raise Failure(f"{error}: the server ended with {server.process.returncode}; its last words: {server.last_words()}") from error
                raise
            finally:
                if server is not None:
                    server.end()


def wait_until(holds, seconds, still=False):
    """Whether it came to hold in time; with still, whether it held all the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if bool(holds()) != still:
            return not still
        time.sleep(0.02)
    return still


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Crowd:
    """Threads that do something until the block ends. What they raise is kept, and is no failure by itself:
    hostile clients may be refused."""

    def __init__(self, count, act, forever=True):
        self._act, self._stop, self.errors, self.results = act, threading.Event(), [], []
        self._forever = forever
        self._threads = [threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(count)]

    def _run(self, i):
        turn = 0
        while not self._stop.is_set():
            try:
                self.results.append(self._act(i, turn))
            except Exception as error:
                self.errors.append(error)
                self._stop.wait(0.02)
            turn += 1
            if not self._forever:
                return

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, failure, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(0.1 if failure else 60)  # who has failed ends its server, and these with it

    def join(self, seconds=60):
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        check(not any(thread.is_alive() for thread in self._threads), f"a request has no answer after {seconds} s")


def at_once(items, act, clients):
    """act(item) for all, by so many clients; the results in order. The first exception is raised."""
    items, todo = list(items), queue.SimpleQueue()
    results, errors = [None] * len(items), []
    for i in range(len(items)):
        todo.put(i)

    def work():
        while not errors:
            try:
                i = todo.get_nowait()
            except queue.Empty:
                return
            try:
                results[i] = act(items[i])
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(clients, len(items)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def health_times(server, seconds, pause=0.05):
    """How long /health takes, again and again for so many seconds."""
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end or not times:
        times.append(server.get("/health", timeout=30).seconds)
        time.sleep(pause)
    return times


def check_health(times, median=0.1, longest=1.5):
    middle, worst = statistics.median(times), max(times)
    said = f"/health median {ms(middle)}, longest {ms(worst)}"
    check(middle <= median and worst <= longest, f"{said}; at most {ms(median)} and {ms(longest)}")
    return said


def check_gaps(quiet, under, floor=0.05):
    """Another's gaps between tokens are at most three times its quiet ones, beyond what a busy machine adds by itself."""
    said = (f"gaps p95 {ms(percentile(quiet, .95))} -> {ms(percentile(under, .95))}, "
            f"longest {ms(max(quiet))} -> {ms(max(under))}")
    check(percentile(under, .95) <= 3 * percentile(quiet, .95) + floor, said)
    check(max(under) <= 3 * max(quiet) + 5 * floor, said)
    return said


def ms(seconds):
    return f"{seconds * 1000:.0f} ms"


def mib(size):
    return f"{size / MIB:.0f} MiB"


def words(count, seed):
    """A text of about so many tokens that no other seed gives."""
    state, out = seed * 2654435761 % 2**32 or 1, []
    names = "fox bear girl boy tree river hill stone ball kite mother father little happy red big old soft ran saw".split()
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append(names[(state >> 16) % len(names)])
    return " ".join(out)


def ids(count, seed):
    """A prompt of exactly so many token ids, all of plain words, that no other seed gives."""
    state, out = seed * 2654435761 % 2**32 or 1, []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append(300 + (state >> 12) % 7000)
    return out
