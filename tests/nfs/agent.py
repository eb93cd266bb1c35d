#!/usr/bin/python3
"""The first process of a machine (machine.py): sets it up, and runs what the tests ask for.

A serial line carries the talk, so that it does not end where the network does. Each line is a JSON object. A request has `id` and `argv`; with
`spawn` the answer is the pid at once, and each piece of output and the exit status follow; otherwise the answer comes at the program's end.
A request with `signal` is for a pid.
"""
import json
import os
import signal
import subprocess
import sys
import termios
import threading
import tty

NAME, ADDRESS, GATEWAY, HOST_FOLDER, MODULES = sys.argv[1:6]  # the kernel adds a word of its own
LINE = os.open("/dev/ttyS0", os.O_RDWR | os.O_NOCTTY)
sending = threading.Lock()


def say(**what):
    data = json.dumps(what).encode() + b"\n"
    with sending:
        while data:
            data = data[os.write(LINE, data):]


def must(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def set_up():
    os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", HOME="/run", TMPDIR="/run", LC_ALL="C.UTF-8")
    tty.setraw(LINE, termios.TCSANOW)
    for kind, where in (("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/run")):
        must("mount", "-t", kind, kind, where)
    os.makedirs("/run/lib")
    os.symlink("/usr/lib/uml/modules", "/run/lib/modules")
    for folder in ("/run/nfs", "/run/host", "/run/disk"):
        os.mkdir(folder)
    must("mount", "-t", "hostfs", "-o", HOST_FOLDER, "none", "/run/host")
    for module in MODULES.split(","):
        must("modprobe", "-d", "/run", module)
    must("hostname", NAME)
    must("ip", "link", "set", "lo", "up")
    must("ip", "address", "add", f"{ADDRESS}/24", "dev", "vec0")
    must("ip", "link", "set", "vec0", "up")
    must("ip", "route", "add", "default", "via", GATEWAY)


def popen(request, **more):
    return subprocess.Popen(request["argv"], env={**os.environ, **request.get("env", {})}, stdin=subprocess.DEVNULL, **more)


def spawn(request):
    child = popen(request, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    say(id=request["id"], pid=child.pid)
    while data := os.read(child.stdout.fileno(), 4096):
        say(pid=child.pid, log=data.decode(errors="replace"))
    say(pid=child.pid, exit=child.wait())


def run(request):
    out, err = (child := popen(request, stdout=subprocess.PIPE, stderr=subprocess.PIPE)).communicate()
    say(id=request["id"], exit=child.returncode, out=out.decode(errors="replace"), err=err.decode(errors="replace"))


def send_signal(request):
    try:
        os.kill(request["pid"], request["signal"])
    except ProcessLookupError:
        pass
    say(id=request["id"])


def perform(request):
    try:
        (send_signal if "signal" in request else spawn if request.get("spawn") else run)(request)
    except Exception as error:  # the caller must know
        say(id=request["id"], failed=repr(error))


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    set_up()
    say(up=os.uname().release)
    with os.fdopen(os.dup(LINE), "rb", buffering=0) as line:
        rest = b""
        while data := line.read(4096):
            *lines, rest = (rest + data).split(b"\n")
            for one in lines:
                threading.Thread(target=perform, args=(json.loads(one),), daemon=True).start()


main()
