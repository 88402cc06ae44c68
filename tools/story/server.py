"""A kvasir server for a picture, and somebody who watches its stream: what the cache looked like, look by look."""
import http.client
import json
import pathlib
import re
import subprocess
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "kvasir"
STATES = ["absent", "free", "in use", "shared", "cached", "pinned"]


def kvasir(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True, cwd=ROOT).stdout


class Server:
    """`options` as kvasir serve takes them; ends with the block that it is used in."""

    def __init__(self, *options):
        command = [PROGRAM, "serve", "--port", "0", "-q", *options]
        if "--draft" not in options:
            command += ["--draft", "off"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        for line in self.process.stderr:
            found = re.search(r"at http://(127\.0\.0\.1:\d+)", line)
            if found:
                self.address = found[1]
                break
        else:
            raise RuntimeError(f"{' '.join(map(str, command))} ended with {self.process.wait()}")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=60) as reply:
            return json.load(reply)

    def post(self, path, **body):
        request = urllib.request.Request(f"http://{self.address}{path}", json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            return json.load(reply)

    def chat(self, text, system=None, **more):
        messages = ([{"role": "system", "content": system}] if system else []) + [{"role": "user", "content": text}]
        return self.post("/v1/chat/completions", messages=messages, temperature=0, explain=True, **more)

    def write(self, prompt, tokens, **more):
        return self.post("/v1/completions", prompt=prompt, max_tokens=tokens, temperature=0, ignore_eos=True, **more)


class Watch:
    """Reads GET /kvasir/live in the background. `cells` is what is now; `looks` has every piece with its time."""

    def __init__(self, server):
        self.cells, self.looks, self.lock = {}, [], threading.Lock()
        self.connection = http.client.HTTPConnection(server.address, timeout=600)
        self.connection.request("GET", "/kvasir/live")
        self.reply = self.connection.getresponse()
        threading.Thread(target=self.read, daemon=True).start()
        while not self.cells:
            time.sleep(0.01)

    def read(self):
        try:
            for line in self.reply:
                if line.startswith(b"data: "):
                    self.take(json.loads(line[6:]))
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass  # the server ended

    def take(self, piece):
        with self.lock:
            for row in piece.get("blocks", []):
                named = len(row) > 5
                self.cells[row[0]] = {"cell": row[0], "group": row[1], "state": STATES[row[2]],
                                      "place": row[5] if named else None, "parent": row[6] if named else None,
                                      "key": row[9] if named else None}
            self.looks.append(piece)

    def rest(self):
        """Waits until nothing changed for a moment: the stream tells what is, a little later."""
        seen = -1
        while seen != len(self.looks):
            seen = len(self.looks)
            time.sleep(0.7)

    def states(self):
        with self.lock:
            return {cell: row["state"] for cell, row in self.cells.items()}

    def chain_to(self, cell):
        """The named blocks from the beginning of a text to this one."""
        out = []
        while cell in self.cells and self.cells[cell]["key"]:
            out.insert(0, self.cells[cell])
            cell = self.cells[cell]["parent"]
        return out
