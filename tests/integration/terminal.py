"""A terminal for a program under test: a pty, and the screen that pyte makes of what is written to it."""
import fcntl
import os
import signal
import struct
import subprocess
import termios
import threading

import pyte
from harness import DEADLINE, environment, program, wait_until


class Screen(pyte.Screen):
    """Scrolls as a terminal does: pyte knows neither SU nor SD."""

    def scroll_up(self, count=1):
        self._at_margin(1, self.index, count)

    def scroll_down(self, count=1):
        self._at_margin(0, self.reverse_index, count)

    def _at_margin(self, which, step, count):
        before = self.cursor.y
        self.cursor.y = (self.margins or (0, self.lines - 1))[which]
        for _ in range(count or 1):
            step()
        self.cursor.y = before


class Stream(pyte.ByteStream):
    csi = {**pyte.ByteStream.csi, "S": "scroll_up", "T": "scroll_down"}
    events = pyte.ByteStream.events | {"scroll_up", "scroll_down"}


class Terminal:
    """`written` has the bytes; `term` names what pyte understands, and has an alternate screen."""

    def __init__(self, name, *arguments, columns=80, lines=24, env=None, term="screen-256color", ignored=()):
        def begin():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)
        self.screen = Screen(columns, lines)
        self.stream = Stream(self.screen)
        self.lock, self.written = threading.Lock(), b""
        self.master, self.slave = os.openpty()
        self._set_size(columns, lines)
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen([program(name), *map(str, arguments)], stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                        start_new_session=True, preexec_fn=begin, env=environment(TERM=term, **(env or {})))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _set_size(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self):
        while True:
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                return
            if not piece:
                return
            with self.lock:
                self.written += piece
                self.stream.feed(piece)

    def lines(self):
        with self.lock:
            return [line.rstrip() for line in self.screen.display]

    def __str__(self):
        return f"process {self.process.pid} ({self.process.poll()}), its screen:\n" + "\n".join(self.lines())

    def row(self, name):
        """The line of the table that begins with it, behind the mark; None: there is none."""
        return next((line for line in self.lines() if line[2:].startswith(name + " ")), None)

    def wait(self, condition, what="a screen"):
        """Until the condition holds for the lines; they are returned."""
        def look():
            lines = self.lines()
            return lines if condition(lines) else None
        return wait_until(look, lambda: f"{what} of {self}")

    def wait_text(self, text):
        return self.wait(lambda lines: any(text in line for line in lines), repr(text))

    def type(self, keys):
        os.write(self.master, keys if isinstance(keys, bytes) else keys.encode())

    def resize(self, columns, lines):
        """The kernel sends SIGWINCH."""
        with self.lock:
            self.screen.resize(lines, columns)
        self._set_size(columns, lines)

    def foreground_of(self, line, column):
        with self.lock:
            return self.screen.buffer[line][column].fg

    def end(self):
        """Its exit status, when it has ended by itself."""
        return self.process.wait(DEADLINE)

    def restored(self):
        """The modes of the terminal are those from before, the cursor is seen, and the other screen is left."""
        wait_until(lambda: self.written.rfind(b"\x1b[?1049l") > self.written.rfind(b"\x1b[?1049h"), lambda: f"the first screen of {self}")
        assert termios.tcgetattr(self.slave) == self.before
        assert self.written.rfind(b"\x1b[?25h") > self.written.rfind(b"\x1b[?25l"), self.written[-200:]

    def hang_up(self):
        """Nobody holds the other side any more."""
        for name in ("slave", "master"):
            os.close(getattr(self, name))
            setattr(self, name, os.open(os.devnull, os.O_RDWR))

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.slave)
        os.close(self.master)
