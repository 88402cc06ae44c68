#!/usr/bin/env python3
"""kvasir top on a terminal, as its user sees and steers it: the real program watches a real server under load.

Usage: top_test.py PROGRAM"""
import json
import re
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import unittest
import urllib.request

from screen import Program

PROGRAM = sys.argv.pop(1)
BEGINNING = "Tell me a long story about a fox who lived in an old mill by the river with a crow. "


class Server:
    def __init__(self, *more, port="0"):
        options = ["serve", "-m", "tales-draft", "--port", port, "-t", "1", "--kv-memory", "1500KB", "-q", *more]
        self.process = subprocess.Popen([PROGRAM, *options], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"at (http://127\.0\.0\.1:\d+)", line)
            if found:
                self.url = found[1]
                break
        else:
            raise AssertionError(f"the server ended with {self.process.wait()}")
        self.reader = threading.Thread(target=self.process.stderr.read, daemon=True)
        self.reader.start()

    def chat(self, text, key=None, **fields):
        headers = {"content-type": "application/json"}
        headers |= {"authorization": f"Bearer {key}"} if key else {}
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 24, **fields}
        request = urllib.request.Request(f"{self.url}/v1/chat/completions", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.load(reply)

    def stop(self):
        self.process.terminate()
        code = self.process.wait(60)
        self.reader.join()
        self.process.stderr.close()
        return code


class Load:
    """Chats that begin alike, until told to stop."""

    def __init__(self, server, **more):
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.chat, args=(server, i), kwargs=more) for i in range(3)]
        for thread in self.threads:
            thread.start()

    def chat(self, server, which, **more):
        turn = 0
        while not self.stopped.is_set():
            turn += 1
            server.chat(f"{BEGINNING * 2}{which} {turn}", max_tokens=300, ignore_eos=True, **more)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


def number_before(word, screen):
    """Of the legend: how many blocks are so."""
    return int(re.search(rf"{word} (\d+)", screen)[1])


class TopTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def top(self, *more, **size):
        program = Program([PROGRAM, "top", "--url", self.server.url, *more], **size)
        self.addCleanup(program.close)
        return program

    def test_blocks_lanes_rates_and_requests_move(self):
        top = self.top()
        top.shows("kvasir top  tales-draft on", "blocks by state", "requests over time", "live")
        with Load(self.server):
            top.until(lambda screen: re.search(r"running [123]\b.*answers [\d,]+", screen), "no answers a second")
            top.until(lambda screen: "in use" in screen and number_before("in use", screen) > 0, "no block in use")
            top.until(lambda screen: "shared" in screen and number_before("shared", screen) > 0, "no block shared")
            top.until(lambda screen: screen.count("■") > 10 and "█" in screen, "no map, no lane")
        screen = top.until(lambda screen: re.search(r"running 0\b", screen), "it still runs")
        self.assertRegex(screen, r"\d+ +\S+( s)? +\d+ +\d+%  a cached text goes on.* 300 .* length")
        self.assertEqual(top.screen.odd, [])

    def test_keys_choose_what_is_shown(self):
        said = self.server.chat("Tell me a story about a fox.", explain=True)["kvasir"]
        top = self.top()
        top.shows("blocks by state")
        for key, title in {"2": "blocks by", "3": "requests over time", "4": "why no more", "5": "share"}.items():
            others = {"blocks by", "requests over time", "why no more", "share"} - {title}
            top.press(key)
            top.until(lambda screen: title in screen and not any(one in screen for one in others), f"{key}: {title}")
        top.press("\t")
        top.shows("blocks by state", "requests over time")
        for by in ("tenant", "policy", "age", "state"):
            top.press("c")
            top.shows(f"blocks by {by}")
        top.press("4")
        top.press("\x1b[B")
        chosen = top.shows("Request ", "first token after")
        self.assertIn(f"{said['reused_tokens']} of {said['prompt_tokens']} prompt tokens reused", chosen)
        top.press("3")
        top.shows("-60.0 s")
        top.press("-")
        top.shows("-2 min 0 s")
        top.press("\x1b[D")
        top.shows("-2 min 30 s", "-30.0 s")
        top.press("?")
        top.shows("the last requests, and why no more of each was reused")
        top.press("q")
        self.assertEqual(top.wait(), 0)

    def redrawn(self, top):
        """Another view and back: both are drawn anew."""
        for key in ("2", "1"):
            top.press(key)
            for _ in range(6):
                top.look()

    def test_it_fits_every_size_and_follows_it(self):
        top = self.top(columns=100, rows=30)
        top.shows("requests over time")
        for columns, rows in ((60, 15), (20, 5), (1, 1), (200, 60)):
            top.resize(columns, rows)
            top.until(lambda screen: screen.startswith("kvasir top"[:columns]), f"nothing at {columns} x {rows}")
            self.redrawn(top)
            top.screen.odd.clear()  # what was drawn for the old size, and came behind the change
            self.redrawn(top)
            self.assertEqual(top.screen.odd, [], f"{columns} x {rows}")
        top.shows("1 all  2 blocks", "q leave", "requests over time")
        self.assertEqual(top.screen.odd, [])

    def test_the_terminal_is_given_back(self):
        for ended in ("q", signal.SIGTERM, signal.SIGINT):
            top = self.top()
            top.shows("blocks by state")
            self.assertIn("?1049", top.screen.modes)
            self.assertFalse(top.settings()[3] & termios.ECHO)
            if ended == "q":
                top.press("q")
            else:
                top.signal(ended)
            self.assertEqual(top.wait(), 0)
            self.assertNotIn("?1049", top.screen.modes)
            self.assertIn("?25", top.screen.modes)  # the cursor
            self.assertTrue(top.settings()[3] & termios.ECHO)

    def test_held_still_it_stays(self):
        top = self.top()
        top.shows("live")
        top.press(" ")
        top.shows("held")
        with Load(self.server):
            for _ in range(20):
                top.look(0.05)
            self.assertRegex(str(top.screen), r"running 0\b")
            top.press(" ")
            top.until(lambda screen: re.search(r"running [123]\b", screen), "it is still held")

    def test_without_a_terminal_it_prints_what_is(self):
        with Load(self.server):
            ran = subprocess.run([PROGRAM, "top", "--url", self.server.url], capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertNotIn("\x1b", ran.stdout)
        self.assertRegex(ran.stdout, r"\A\S.*tales-draft on .* live\n")
        self.assertRegex(ran.stdout, r"\n[uscp.]{50,}\n")
        self.assertRegex(ran.stdout, r"answers [\d,]+")

    def test_a_server_that_goes_is_waited_for(self):
        other = Server()
        top = Program([PROGRAM, "top", "--url", other.url])
        self.addCleanup(top.close)
        top.shows("live")
        self.assertEqual(other.stop(), 0)
        top.shows("no connection")
        again = Server(port=other.url.rsplit(":", 1)[1])
        top.until(lambda screen: "no connection" not in screen and "live" in screen, "it does not come back")
        self.assertEqual(again.stop(), 0)

    def test_with_keys_each_sees_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = f"{folder}/keys.json"
            add = lambda *more: subprocess.run([PROGRAM, "keys", "add", "--file", keys, *more], capture_output=True, text=True, check=True).stdout.strip()
            alice, bob, boss = add("alice"), add("bob"), add("boss", "--operator")
            server = Server("--keys", keys)
            server.chat("Tell me a story about a fox.", key=bob)

            def once(key):
                environment = {"KVASIR_URL": server.url, "KVASIR_API_KEY": key}
                return subprocess.run([PROGRAM, "top", "--once"], env=environment, capture_output=True, text=True, timeout=60)

            for key, says in (("", "asks for a key"), ("kv-wrong", "does not know this key")):
                refused = once(key)
                self.assertEqual((refused.returncode, refused.stdout), (2, ""), refused.stderr)
                self.assertIn(says, refused.stderr)
            self.assertRegex(once(alice).stdout, r"\n0 blocks by state")
            self.assertIn(" bob ", once(bob).stdout)
            self.assertIn(" bob ", once(boss).stdout)
            self.assertEqual(server.stop(), 0)

    def test_what_is_no_server_is_said(self):
        for url, says in (("http://127.0.0.1:1", "cannot connect"), ("ftp://x", "is not an address")):
            ran = subprocess.run([PROGRAM, "top", "--once", "--url", url], capture_output=True, text=True, timeout=60)
            self.assertEqual(ran.stdout, "")
            self.assertIn(says, ran.stderr)
            self.assertNotEqual(ran.returncode, 0)


if __name__ == "__main__":
    unittest.main()
