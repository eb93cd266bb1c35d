"""A headless Chromium, driven as a reader drives it: by keys, and by looking at what is there.

It is spoken to by its DevTools protocol over two pipes, so that it needs neither a driver nor a port. It reaches nothing but 127.0.0.1.
"""
import base64
import json
import os
import subprocess
import tempfile
import threading
from concurrent.futures import Future

from disks import need_program
from harness import DEADLINE, remove, wait_until

KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "Space": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


class Chromium:
    """The process, and one tab of it."""

    def __init__(self):
        need_program("chromium", "a look at the page")
        self.profile = tempfile.mkdtemp(prefix="pawl-chromium.", dir=os.environ.get("PAWL_TEST_TMP"))
        requests, self.requests = os.pipe()
        self.answers, answers = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                   "--disable-component-update", "--disable-sync", "--disable-default-apps", "--hide-scrollbars", "--remote-debugging-pipe",
                   "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={self.profile}", "about:blank"]
        with open(f"{self.profile}/log", "wb") as log:
            self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{requests} 4>&{answers}', "chromium", "chromium", *options], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, pass_fds=(requests, answers), env={**os.environ, "HOME": self.profile}, start_new_session=True)
        os.close(requests)
        os.close(answers)
        self.last, self.waiting, self.events, self.lock = 0, {}, [], threading.Lock()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.session = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.ask(f"{domain}.enable")

    def _read(self):
        with os.fdopen(self.answers, "rb") as pipe:
            rest = b""
            while part := pipe.read1(1 << 20):
                *whole, rest = (rest + part).split(b"\0")
                for one in map(json.loads, whole):
                    waiting = self.waiting.pop(one.get("id"), None)
                    if waiting:
                        waiting.set_result(one)
                    else:
                        self.events.append(one)

    def ask(self, method, **parameters):
        with self.lock:
            self.last += 1
            future = self.waiting[self.last] = Future()
            request = {"id": self.last, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
            rest = json.dumps(request).encode() + b"\0"
            while rest:
                rest = rest[os.write(self.requests, rest):]
        answer = future.result(DEADLINE)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def close(self):
        os.close(self.requests)
        self.process.kill()
        self.process.wait()
        self.reader.join(10)
        remove(self.profile)

    # what a reader sets

    def size(self, width, height):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def scheme(self, name):
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, address):
        self.ask("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank' && document.readyState === 'complete'", "an empty page")
        self.events.clear()  # what the last page asked for is no matter of this one
        self.ask("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'", f"the page {address}")

    def press(self, key, times=1, shift=False):
        """A key of KEYS, or a text."""
        for _ in range(times):
            if key not in KEYS:
                self.ask("Input.insertText", text=key)
                continue
            code = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": 8 if shift else 0}
            text = {"Enter": "\r", "Space": " "}.get(key)
            self.ask("Input.dispatchKeyEvent", type="keyDown", **code, **({"text": text} if text else {}))
            self.ask("Input.dispatchKeyEvent", type="keyUp", **code)

    def point(self, x, y):
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def back(self):
        self.js("history.back()")

    # what is there

    def js(self, expression):
        """Its value; a promise's too."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def text(self, selector="main"):
        """As it is shown, hidden parts left out."""
        return self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def texts(self, selector):
        return self.js(f"[...document.querySelectorAll({json.dumps(selector)})].filter(one => one.checkVisibility()).map(one => one.innerText.trim())")

    def wait(self, expression, what=None):
        def holds():
            answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
            return answer["result"].get("value")  # an exception is none: the page may not be there yet
        wait_until(holds, lambda: f"{what or expression}; the page says:\n{self.text('body')}")

    def wait_text(self, part, selector="main"):
        wait_until(lambda: part in self.text(selector), lambda: f"{part!r} in {selector}; it says:\n{self.text(selector)}")

    def faults(self):
        """What the browser complained of: exceptions, refused requests, violations of the Content-Security-Policy."""
        out = []
        for event in list(self.events):
            if event.get("method") == "Runtime.exceptionThrown":
                out.append(json.dumps(event["params"]["exceptionDetails"].get("exception", event["params"])))
            if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] in ("warning", "error"):
                out.append(event["params"]["entry"]["text"])
            if event.get("method") == "Page.javascriptDialogOpening":
                out.append("a dialog: " + event["params"]["message"])
        return out

    def requested(self):
        return [event["params"]["request"]["url"] for event in list(self.events) if event.get("method") == "Network.requestWillBeSent"]

    def nodes(self):
        """What a screen reader meets: [(role, name)]."""
        found = self.ask("Accessibility.getFullAXTree")["nodes"]
        return [(one["role"]["value"], one.get("name", {}).get("value", "")) for one in found if not one.get("ignored")]

    def shoot(self, path, full=False):
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=full)["data"]
        path.write_bytes(base64.b64decode(data))
