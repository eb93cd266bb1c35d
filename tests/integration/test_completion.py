"""The completion of bash and zsh: real shells on a terminal of their own, with the files of the build where a shell looks for them."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import pytest

from disks import need_program
from harness import BIN, DEADLINE, run

PROGRAMS = ["pawl-worker", "pawl-enqueue", "pawl-status", "pawl-setup", "pawl-dump", "pawl-lock", "pawl-monitor"]
PROMPT = "ready> "
# In place of each program: it prints the words that it gets.
PRINT = "".join(f"{name}() {{ printf '<<'; for word; do printf '%s\\000' \"$word\"; done; printf '>>\\n'; }}\n" for name in PROGRAMS)
ALL = "\x18a"  # Ctrl-X a: inserts all that Tab would offer

BASH = f"""
. /usr/share/bash-completion/bash_completion
bind 'set enable-bracketed-paste off'
bind '"\\C-xa": insert-completions'
{PRINT}
PS1='{PROMPT}'
"""
ZSH = f"""
fpath=({{folder}} $fpath)
autoload -Uz compinit
compinit -u -D
zle -C all-matches complete-word _generic
bindkey '^Xa' all-matches
zstyle ':completion:all-matches::::' completer _all_matches _complete
zstyle ':completion:all-matches:*' insert true
unset zle_bracketed_paste
{PRINT}
PS1='{PROMPT}'
"""


class Shell:
    def __init__(self, command, folder, **more):
        self.terminal, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 4000, 0, 0))
        env = {"HOME": str(folder), "PATH": os.environ["PATH"], "TERM": "xterm", "LANG": "C.UTF-8", "INPUTRC": "/dev/null", **more}
        self.process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=env, cwd=folder, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(other)
        self.read = ""
        self.until(PROMPT)

    def until(self, what):
        """Reads up to this text, and returns what came before it."""
        end = time.monotonic() + DEADLINE
        while what not in self.read:
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {what!r} in {self.read!r}"
            self.read += os.read(self.terminal, 65536).decode(errors="replace")
        before, _, self.read = self.read.partition(what)
        return before

    def type(self, keys):
        """The words after the program's name, when these keys and Enter are typed."""
        os.write(self.terminal, f"{keys}\n".encode())
        self.until("<<")
        words = self.until(">>").split("\0")[:-1]
        self.until(PROMPT)
        return words

    def words(self, keys):
        """The same, with --option=value as two words: zsh completes an option that takes a value with the =."""
        return [part for word in self.type(keys) for part in word.split("=")]

    def offered(self, line):
        """All that is offered at the end of the line."""
        given = line.split()[1:]
        if not line.endswith(" "):
            given.pop()
        words = self.type(line + ALL)
        assert words[:len(given)] == given, words
        return sorted(words[len(given):])

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)


@pytest.fixture(params=["bash", "zsh"])
def shell(request, tmp_path):
    need_program(request.param, "its completion")
    for name in ("a dir", "b"):
        (tmp_path / "ground" / name).mkdir(parents=True)
    for name in ("c file", "d"):
        (tmp_path / "ground" / name).touch()
    (tmp_path / "bash-completion").mkdir()
    (tmp_path / "bash-completion/completions").symlink_to(BIN / "config/completions/bash")
    (tmp_path / "bashrc").write_text(BASH)
    (tmp_path / ".zshrc").write_text(ZSH.replace("{folder}", str(BIN / "config/completions/zsh")))
    command = {"bash": ["bash", "--noprofile", "--rcfile", tmp_path / "bashrc", "-i"], "zsh": ["zsh", "-i"]}[request.param]
    made = Shell(command, tmp_path / "ground", XDG_DATA_DIRS=f"{tmp_path}:/usr/share", ZDOTDIR=str(tmp_path))
    yield made
    made.close()


def options(name):
    """Of --help: {--flag: its letter or ""}."""
    found = re.findall(r"^  (?:(-.), |    )(--[a-z-]+)", run(name, "--help").stdout.decode().partition("\n\nTimes carry")[0], re.M)
    assert len(found) > 5
    return {flag: letter for letter, flag in found}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_option_is_offered(shell, name):
    """Those of --help, and no other."""
    known = options(name)
    assert shell.offered(f"{name} --") == sorted(known)
    assert set(shell.offered(f"{name} -")) - set(known) == set(known.values()) - {""}


def test_options_are_completed(shell):
    assert shell.type("pawl-worker --le\t") == ["--lease"]
    assert shell.words("pawl-worker --lease 10s --cod\tz\t") == ["--lease", "10s", "--codec", "zstd"]
    assert shell.type("pawl-worker --codec=z\t") == ["--codec=zstd"]


def test_choices(shell):
    assert shell.offered("pawl-worker --codec ") == ["plain", "zstd"]
    assert shell.offered("pawl-worker -v --log-level ") == ["debug", "error", "info", "warn"]
    assert shell.offered("pawl-dump --format ") == sorted("relaxed canonical payload bson hex blocks summary none".split())
    assert shell.offered("pawl-enqueue --type t1 --bundle ") == ["auto"]


def test_paths(shell):
    assert shell.offered("pawl-worker --dir ") == ["a dir", "b"]
    assert shell.offered("pawl-worker --config ") == ["a dir", "b", "c file", "d"]
    assert shell.offered("pawl-dump ") == ["a dir", "b", "c file", "d"]
    assert shell.offered("pawl-enqueue -v ") == ["a dir", "b", "c file", "d"]
    assert [word.rstrip("/") for word in shell.words("pawl-worker --dir a\t")] == ["--dir", "a dir"]


@pytest.mark.parametrize("line", ["pawl-worker --type ", "pawl-worker --lease ", "pawl-status --uri ", "pawl-lock --show ", "pawl-lock "])
def test_free_text(shell, line):
    """Nothing is offered, and no name of a file."""
    offered = shell.offered(line)
    assert offered == [] or line == "pawl-lock " and offered[0].startswith("-")


def test_command_of_pawl_lock(shell):
    """After the dashes come a command and its own words."""
    assert shell.type("pawl-lock nightly -- pawl-work\t") == ["nightly", "--", "pawl-worker"]
    assert shell.words("pawl-lock nightly --slots 2 -- pawl-worker --cod\tz\t") == ["nightly", "--slots", "2", "--", "pawl-worker", "--codec", "zstd"]
