"""A program on a pseudo-terminal, and what its user would see: enough of a terminal for what kvasir writes."""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

SEQUENCE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])")


class Screen:
    """Rows of characters. `odd` has every sequence that it does not know."""

    def __init__(self, columns, rows):
        self.odd, self.modes, self.text = [], set(), ""
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.wipe()

    def wipe(self):
        self.cells = [[" "] * self.columns for _ in range(self.rows)]
        self.x = self.y = 0

    def put(self, character):
        if character == "\n":
            self.y += 1
        elif character == "\r":
            self.x = 0
        elif character < " ":
            self.odd.append(repr(character))
        else:
            if self.y >= self.rows or self.x >= self.columns:
                self.odd.append(f"{character!r} at {self.x}, {self.y}: outside")
            else:
                self.cells[self.y][self.x] = character
            self.x += 1

    def obey(self, numbers, verb):
        if numbers.startswith("?") and verb in "hl":
            (self.modes.add if verb == "h" else self.modes.discard)(numbers)
        elif verb == "H":
            row, column = (int(one) for one in (numbers or "1;1").split(";"))
            self.x, self.y = column - 1, row - 1
        elif verb == "J" and numbers == "2":
            self.wipe()
        elif verb != "m":
            self.odd.append(numbers + verb)

    def feed(self, text):
        self.text += text
        while self.text:
            found = SEQUENCE.match(self.text)
            if found:
                self.obey(*found.groups())
                self.text = self.text[found.end():]
            elif self.text[0] == "\x1b" and len(self.text) < 16:
                return  # the rest comes
            else:
                self.put(self.text[0])
                self.text = self.text[1:]

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def __str__(self):
        return "\n".join(self.lines())


class Program:
    def __init__(self, arguments, columns=100, rows=30, environment=None):
        self.screen = Screen(columns, rows)
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve(arguments[0], arguments, {**os.environ, "TERM": "xterm-256color", **(environment or {})})
        self.resize(columns, rows)
        self.code = None

    def resize(self, columns, rows):
        self.screen.resize(columns, rows)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def settings(self):
        return termios.tcgetattr(self.terminal)

    def press(self, keys):
        os.write(self.terminal, keys.encode())

    def look(self, seconds=0.05):
        """Reads what was written; False once the program is gone."""
        if not select.select([self.terminal], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.terminal, 65536)
        except OSError:
            return False
        self.screen.feed(self.decoder.decode(data))
        return bool(data)

    def until(self, holds, why, seconds=30):
        """The screen as text, once `holds` of it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            alive = self.look()
            if not self.screen.text and holds(str(self.screen)):
                return str(self.screen)
            if not alive:
                break
        raise AssertionError(f"{why}; the screen:\n{self.screen}")

    def shows(self, *texts):
        return self.until(lambda screen: all(text in screen for text in texts), f"{texts} did not come")

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self, seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look(0.01)
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.code = os.waitstatus_to_exitcode(status)
                return self.code
        raise AssertionError("it does not end")

    def close(self):
        if self.code is None:
            self.signal(signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.terminal)
