"""A pawl-monitor of a test: the process, and its port as a client sees it."""
import json
import re
import subprocess
import urllib.parse
from pathlib import Path

from harness import environment, free_port, program, wait_until
from health_port import Port


class Monitor(Port):
    def __init__(self, mongo, log, *arguments, env=None, interval="200ms", host="127.0.0.1"):
        super().__init__(free_port(), host)
        self.log_path = Path(log)
        where = f"[{host}]:{self.number}" if ":" in host else f"{host}:{self.number}"
        with open(log, "wb") as file:
            self.process = subprocess.Popen([program("pawl-monitor"), *map(str, [*mongo, "--listen", where, "--interval", interval, *arguments])],
                                            stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment(**(env or {})))
        wait_until(lambda: self.status("/healthz") == 200 or self.process.poll() is not None, lambda: f"a port: {self}")
        assert self.process.poll() is None, str(self)

    def __str__(self):
        return f"pawl-monitor ({self.process.poll()}), its log:\n{self.log_path.read_text(errors='replace')[-3000:]}"

    def json(self, path, status=200, **arguments):
        pairs = [(name, value) for name, values in arguments.items() for value in (values if isinstance(values, list) else [values])]
        got, text, headers = self.ask(f"{path}?{urllib.parse.urlencode(pairs)}" if pairs else path, timeout=30)
        assert got == status, (got, text[:500])
        if status != 200:
            return text
        assert headers["Content-Type"] == "application/json"
        return json.loads(text)

    def types(self):
        return {row["type"]: row for row in self.json("/api/types")["types"]}

    def row(self, name="t1"):
        return self.types().get(name)

    def wait_row(self, condition, name="t1"):
        """Until the row of the type is so; returns it."""
        def look():
            row = self.row(name)
            return row if row and condition(row) else None
        return wait_until(look, lambda: f"another row than {self.row(name)}; {self}")

    def holds(self, name="t1"):
        return self.json("/api/timeline", type=name, minutes=120)["types"].get(name, [])

    def wait_holds(self, condition, name="t1"):
        wait_until(lambda: condition(self.holds(name)), lambda: f"other holds than {self.holds(name)}; {self}")
        return self.holds(name)

    def wait_answers(self, answers=True):
        wait_until(lambda: self.json("/api/types")["answers"] == answers, lambda: f"answers: {answers}: {self.json('/api/types')}")

    def memory_kib(self):
        return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())[1])

    def close(self):
        self.process.kill()
        self.process.wait()
