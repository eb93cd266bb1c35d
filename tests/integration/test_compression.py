"""compressors= in the URI: the driver's and pawl's own connections send and receive compressed, and all limits hold."""
import base64
import os

import pytest

from harness import run
from proxy import Proxy

MBIT = 1000 * 1000 // 8
COMPRESSORS = ["zstd", "zlib", "snappy"]


def uri(field, name, base=None):
    base = base or field.server.uri
    return f"{base}{'&' if '?' in base else '?'}compressors={name}"


def compressed(field, name):
    """Bytes before and after compression, of what the server sent; and after it, of what it received."""
    counts = field.server.client.admin.command("serverStatus")["network"]["compression"][name]
    return counts["compressor"]["bytesIn"], counts["compressor"]["bytesOut"], counts["decompressor"]["bytesIn"]


@pytest.mark.parametrize("name", COMPRESSORS)
def test_drain(any_field, name):
    """What the readers get, which is nearly all, is compressed, and what is asked as well."""
    field = any_field
    field.fill(3000, size=500)
    before = compressed(field, name)
    worker = field.worker("--exit-when-empty", "--batch-messages", 500, mongo=["--uri", uri(field, name), "--db", field.name])
    assert worker.wait() == 0, str(worker)
    plain, sent, received = (after - was for after, was in zip(compressed(field, name), before))
    assert len(field.compare()["t1"]) == 3000
    assert plain > 3000 * 500 and sent < plain / 4 and received > 0


def test_other_programs(field):
    """An insert, and what is read to be shown."""
    before = compressed(field, "zstd")
    mongo = ["--uri", uri(field, "zstd"), "--db", field.name]
    lines = "".join(f"line {i} {'x' * 400}\n" for i in range(2000))
    for done in (run("pawl-enqueue", *mongo, "--type", "t1", stdin=lines.encode()), run("pawl-status", *mongo)):
        assert done.returncode == 0, done.stderr
    plain, sent, received = (after - was for after, was in zip(compressed(field, "zstd"), before))
    assert plain > 0 and sent > 0 and 0 < received < len(lines) / 4


@pytest.mark.parametrize("name", COMPRESSORS)
def test_reply_takes_as_long_as_its_bytes_come(field, name):
    """As without: 4 MB that hardly compress, at 16 Mbit/s. Any other request has a second."""
    field.insert("p", [{"type": "t1", "producer": "p", "n": 0, "payload": base64.b85encode(os.urandom(3600 * 1000)).decode()}])
    proxy = Proxy(field.server, rate=16 * MBIT)
    worker = field.worker("--exit-when-empty", "--lease", "3s", quick=False, mongo=["--uri", uri(field, name, proxy.uri()), "--db", field.name])
    assert worker.wait() == 0, str(worker)
    assert len(field.compare()["t1"]) == 1
    proxy.close()
