"""pawl-enqueue, pawl-dump, pawl-setup."""
import json
import os
import re
import subprocess
import time

import bson
import pytest
from bson import json_util

import reader
from harness import ROOT, environment, free_port, program, run, wait_until


def payloads(messages):
    return [bson.decode(m.raw)["payload"] for m in messages]


def stored(field, type_name="t1"):
    return reader.read_type(field.dir, type_name, field.ledger(type_name))


# --- enqueue ---


def test_enqueue_lines(any_field, tmp_path):
    field = any_field
    file = tmp_path / "lines.txt"
    file.write_bytes(b"one\ntwo\n\n  four \n\xff\xfe\nwith\0nul\nlast without line feed")
    done = field.run("pawl-enqueue", "--type", "t1", file)
    assert done.returncode == 0, done
    done = field.run("pawl-enqueue", "--type", "t1", stdin=b"from stdin\r\n")
    assert done.returncode == 0, done
    field.drain()
    found = payloads(stored(field))
    assert found in (["one", "two", "", "  four ", b"\xff\xfe", "with\0nul", "last without line feed", end]
                     for end in ("from stdin\r", "from stdin")), found


def test_enqueue_keeps_order_over_calls(field, tmp_path):
    expected = []
    for call in range(5):
        lines = [f"{call}.{n}" for n in range(300)]
        done = field.run("pawl-enqueue", "--type", "t1", "--batch-messages", 70, stdin="\n".join(lines).encode())
        assert done.returncode == 0, done
        expected += lines
    ids = [d["_id"] for d in field.db.messages.find().sort("$natural", 1)]
    assert ids == sorted(ids) and len(set(ids)) == 1500
    field.drain("--batch-messages", 40)
    assert payloads(stored(field)) == expected


def test_enqueue_remembers_ids_for_each_user(field, disks, tmp_path):
    """On a machine where anybody may write to the package's data directory. The last _ids that are noted are of 2100 and of 2200."""
    data = tmp_path / "var/pawl"
    data.mkdir(parents=True)
    prefix = disks.bound(data.parent, "/var/lib")

    def enqueue(**variables):
        """The second of the _id, by an id source that these variables name, and what was said."""
        done = field.run("pawl-enqueue", "--type", "t1", stdin=b"x\n", env={"XDG_STATE_HOME": "", "HOME": "", **variables}, prefix=prefix)
        assert done.returncode == 0 and b"enqueued 1 message" in done.stderr, done
        assert not list(data.iterdir())
        (message,) = field.db.messages.find()
        field.db.messages.delete_one(message)
        return int(message["_id"].binary[:4].hex(), 16), done.stderr

    homes = [tmp_path / name for name in ("ann", "bob", "state")]
    files = [home / folder / "pawl/last-id" for home, folder in zip(homes, (".local/state", ".local/state", "."))]
    variables = [{"HOME": homes[0]}, {"HOME": homes[1]}, {"HOME": homes[0], "XDG_STATE_HOME": homes[2]}]
    for count, (file, its) in enumerate(zip(files, variables), 1):
        second, said = enqueue(**its)
        assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
        assert len(list(tmp_path.rglob("last-id"))) == count and abs(second - time.time()) < 60 and b"clock" not in said, said
    files[0].write_text("4102444800000000\n")
    files[2].write_text("4294000000000000\n")
    assert enqueue(**variables[0])[0] == 4102444800
    assert abs(enqueue(**variables[1])[0] - time.time()) < 60
    assert enqueue(**variables[2])[0] == 4294000000
    assert enqueue(**variables[0], XDG_STATE_HOME="relative")[0] == 4102444800


def test_enqueue_says_that_it_cannot_remember_ids(field, disks, tmp_path):
    data = tmp_path / "var/pawl"
    data.mkdir(parents=True)
    prefix = [*disks.bound(data.parent, "/var/lib"), "sh", "-c", 'mount -t tmpfs -o ro none "$0" && exec "$@"', "/var/lib/pawl"]
    for variables, why in (({"HOME": ""}, b"neither XDG_STATE_HOME nor HOME names a folder"),
                           ({"HOME": "/var/lib/pawl/home"}, b"/var/lib/pawl/home/.local/state/pawl/last-id: Read-only file system"),
                           ({"HOME": tmp_path, "XDG_STATE_HOME": "/dev/null"}, b"/dev/null/pawl/last-id: Not a directory")):
        done = field.run("pawl-enqueue", "--type", "t1", "--batch-messages", 2, stdin=b"1\n2\n3\n4\n5\n",
                         env={"XDG_STATE_HOME": "", **variables}, prefix=prefix)
        assert done.returncode == 0 and b"enqueued 5 messages" in done.stderr and done.stderr.count(b"is up to the clock") == 1, done
        assert why in done.stderr and not list(tmp_path.rglob("last-id")), done
    assert [d["payload"] for d in field.db.messages.find().sort("_id", 1)] == [str(n) for n in range(1, 6)] * 3


def test_enqueue_files_in_order(field, tmp_path):
    for name in ("b", "a", "c"):
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
    assert field.run("pawl-enqueue", "--type", "t1", tmp_path / "b", tmp_path / "a", tmp_path / "c").returncode == 0
    field.drain()
    assert payloads(stored(field)) == ["b1", "b2", "a1", "a2", "c1", "c2"]


def test_enqueue_ndjson_with_bad_lines(field, tmp_path):
    good = [{"type": "t1", "payload": {"a": [1, 2.5, None, True]}}, {"type": "t2", "payload": "other"},
            {"type": "t1", "payload": {"$date": {"$numberLong": "5"}}}, {"type": "t1", "payload": {"$binary": {"base64": "AAE=", "subType": "00"}}}]
    file = tmp_path / "in.ndjson"
    file.write_text("\n".join([json.dumps(good[0]), "{broken", json.dumps(good[1]), "[1,2]", json.dumps(good[2]),
                               '{"type": 5}', '{"payload": "no type"}', json.dumps(good[3])]) + "\n")
    done = field.run("pawl-enqueue", "--from", "ndjson", file)
    assert done.returncode == 1, done
    for line in (2, 4, 6, 7):
        assert re.search(rf"in\.ndjson:{line}\b", done.stderr.decode()), (line, done.stderr.decode())
    for line in (1, 3, 5, 8):
        assert not re.search(rf"in\.ndjson:{line}\b", done.stderr.decode()), (line, done.stderr.decode())
    field.drain(types=["t1", "t2"])
    expected = [json_util.loads(json.dumps(d["payload"])) for d in good]
    assert payloads(stored(field, "t1")) == [expected[0], expected[2], b"\0\1"] or \
        len(stored(field, "t1")) == 3
    assert payloads(stored(field, "t2")) == ["other"]


def test_enqueue_strict_stops(field, tmp_path):
    file = tmp_path / "in.ndjson"
    file.write_text('{"n": 1}\n{broken\n{"n": 3}\n')
    done = field.run("pawl-enqueue", "--from", "ndjson", "--type", "t1", "--strict", file)
    assert done.returncode == 1 and b"in.ndjson:2" in done.stderr, done
    assert [d["n"] for d in field.db.messages.find()] in ([1], [])


def test_enqueue_bson(field, tmp_path):
    documents = [bson.encode({"_id": n, "type": "t1", "payload": n}) for n in range(5)] + [bson.encode({"payload": "gets _id and type"})]
    file = tmp_path / "in.bson"
    file.write_bytes(b"".join(documents))
    done = field.run("pawl-enqueue", "--from", "bson", "--type", "t1", file)
    assert done.returncode == 0, done
    field.drain()
    assert sorted(map(str, payloads(stored(field)))) == ["0", "1", "2", "3", "4", "gets _id and type"]


def test_enqueue_bson_cut_off(field, tmp_path):
    file = tmp_path / "in.bson"
    file.write_bytes(bson.encode({"_id": 1}) + bson.encode({"_id": 2})[:-3])
    done = field.run("pawl-enqueue", "--from", "bson", "--type", "t1", file)
    assert done.returncode == 1 and b"in.bson" in done.stderr, done
    assert field.queued() == 1


def test_enqueue_missing_file(field):
    done = field.run("pawl-enqueue", "--type", "t1", "/nonexistent/file")
    assert done.returncode != 0 and b"/nonexistent/file" in done.stderr, done


def test_enqueue_needs_a_type(field):
    done = field.run("pawl-enqueue", stdin=b"x\n")
    assert done.returncode == 2 and b"--type" in done.stderr, done


def test_enqueue_stops_at_what_is_unknown(field):
    """What is in the queue is a prefix of the input: a run from the place that is named doubles nothing."""
    field.db.create_collection("messages")
    with field.failing(["insert"], {"times": 1}, program="pawl-enqueue", writeConcernError={"code": 64, "errmsg": "in doubt"}):
        done = field.run("pawl-enqueue", "--type", "t1", "--batch-messages", 3, stdin="".join(f"m{n}\n" for n in range(12)).encode())
    assert done.returncode == 1 and b"it is not known whether 3 messages" in done.stderr and b"not tried: all after standard input:3" in done.stderr, done
    assert field.queued() == 3


def test_enqueue_repeats_an_insert(field):
    """The driver does, once, when the connection ends, as in an election: each message is in the queue once."""
    field.db.create_collection("messages")
    with field.failing(["insert"], {"times": 1}, collection="messages", program="pawl-enqueue", closeConnection=True) as fault:
        done = field.run("pawl-enqueue", "--type", "t1", stdin=b"one\ntwo\n")
    assert done.returncode == 0 and fault.count == 1 and field.queued() == 2, done


def test_enqueue_duplicate_id_is_reported(field, tmp_path):
    file = tmp_path / "in.ndjson"
    file.write_text('{"_id": 1}\n{"_id": 1}\n{"_id": 2}\n')
    done = field.run("pawl-enqueue", "--from", "ndjson", "--type", "t1", file)
    assert done.returncode == 1 and b"in.ndjson:2" in done.stderr, done
    assert field.queued() == 2


# --- dump ---


@pytest.fixture
def drained(field):
    """1000 messages in blocks of 50, in two epochs."""
    for _ in range(2):
        field.fill(500)
        field.drain("--batch-messages", 50)
    field.where = ["--dir", field.dir, "--type", "t1"]
    return field


def numbers(done):
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line)["n"] for line in done.stdout.decode().splitlines()]


def test_dump_selections(drained):
    def dump(*arguments):
        return numbers(run("pawl-dump", *drained.where, *arguments))
    everything = list(range(1000))
    assert dump() == everything
    assert dump("--from-seq", 501) == everything[500:]
    assert dump("--to-seq", 10) == everything[:10]
    assert dump("--from-seq", 77, "--to-seq", 77) == [76]
    assert dump("--limit", 3) == dump("-n", 3) == everything[:3]
    assert dump("--from-seq", 990, "--limit", 5) == everything[989:994]
    assert dump("--from-seq", 2000) == []
    assert dump("--tail", 4) == everything[-4:]
    assert dump("--since", "1h") == everything and dump("--until", "1h") == []


def test_dump_forms(drained):
    where = drained.where
    assert run("pawl-dump", *where, "--count").stdout.split() [-1:] == [b"1000"]
    assert run("pawl-dump", *where, "--format", "payload", "-n", 2).stdout == b"x" * 40 + b"\n" + b"x" * 40 + b"\n"
    done = run("pawl-dump", *where, "--with-meta", "-n", 1)
    meta = json.loads(done.stdout)
    assert list(meta) == ["seq", "epoch", "offset", "time", "message"] and meta["seq"] == 1, meta
    blocks = run("pawl-dump", *where, "--format", "blocks")
    chain = reader.read_chain(drained.dir, "t1", drained.ledger())
    assert blocks.returncode == 0
    offsets = [block.offset for segment in chain for block in segment.blocks]
    assert all(re.search(rf"\b{offset}\b", blocks.stdout.decode()) for offset in offsets), blocks.stdout.decode()[:600]
    summary = run("pawl-dump", *where, "--format", "summary")
    assert summary.returncode == 0 and b"1000" in summary.stdout, summary
    assert run("pawl-dump", *where, "--format", "none").stdout == b""


def test_dump_verify_finds_a_flipped_bit(drained):
    path = drained.dir / "t1.bin"
    good = bytearray(path.read_bytes())
    good[len(good) // 2] ^= 4
    path.write_bytes(good)
    done = run("pawl-dump", "--verify", *drained.where)
    assert done.returncode == 3, done
    done = run("pawl-dump", *drained.where)
    assert done.returncode == 3, done


def test_dump_verify_needs_the_ledger_to_miss_a_cut_tail(drained):
    path = drained.dir / "t1.bin"
    path.write_bytes(path.read_bytes()[:-200])
    assert run("pawl-dump", "--verify", *drained.where, *drained.mongo).returncode == 3


def test_dump_closed_pipe(drained):
    with subprocess.Popen([program("pawl-dump"), *map(str, drained.where)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment()) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(20)


def test_dump_follow(drained):
    with open(drained.folder / "followed", "wb") as out:
        process = subprocess.Popen([program("pawl-dump"), *map(str, drained.where), *drained.mongo, "-f", "--format", "relaxed"], stdout=out,
                                   stderr=subprocess.DEVNULL, env=environment())
    try:
        def count():
            return (drained.folder / "followed").read_bytes().count(b"\n")
        wait_until(lambda: count() == 1000, lambda: f"1000 lines, there are {count()}", 20)
        drained.fill(50)
        drained.drain()
        wait_until(lambda: count() == 1050, lambda: f"1050 lines, there are {count()}", 20)
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.parametrize("arguments", [["--format", "xml"], ["--from-seq", "0"], ["--since", "yesterday"], ["--nonsense"], []])
def test_dump_usage(arguments):
    assert run("pawl-dump", *arguments).returncode == 2


def test_dump_missing_file():
    done = run("pawl-dump", "/nonexistent/t1.bin")
    assert done.returncode == 1 and b"/nonexistent/t1.bin" in done.stderr, done


# --- setup ---


def test_setup_compares_the_members(field):
    """A set that was initiated with one node is not the one of three that was asked for; nothing is changed."""
    one = "%s:%d" % field.server.client.address
    def setup(*arguments, hosts=one):
        return run("pawl-setup", "--uri", f"mongodb://{hosts}/?replicaSet=rs0", "--db", field.name, "--replica-set", "rs0", *arguments)
    for three in (setup(hosts=f"{one},127.0.0.1:1,db3"), setup("--member", f"{one},127.0.0.1:1,db3")):
        assert three.returncode == 2, three
        assert re.search(rb'set "rs0" was initiated already, and without 127.0.0.1:1, db3(:27017)? \(its members: .*%s' % one.encode(), three.stderr), three
        assert field.db.list_collection_names() == []
    for same in (setup("--member", one), setup(hosts=one.replace("127.0.0.1", "localhost"))):  # by another name: no member is named
        assert same.returncode == 0 and b"replica set rs0: was initiated already" in same.stdout, same


def test_setup_is_idempotent(any_field):
    for _ in range(2):
        done = any_field.run("pawl-setup")
        assert done.returncode == 0, done
    keys = {name: [list(index["key"].items()) for index in any_field.db[name].list_indexes()] for name in ("messages", "locks")}
    assert [("type", 1), ("_id", 1)] in keys["messages"] and [("type", 1), ("slot", 1)] in keys["locks"]
    assert "ledger" in any_field.db.list_collection_names()
    any_field.fill(5)
    any_field.drain()
    any_field.compare()


def test_setup_waits_for_all_members(tmp_path):
    """One of them is still starting."""
    mongod = subprocess.run([ROOT / "scripts/mongod", "find"], capture_output=True, check=True, text=True).stdout.strip()
    ports = [free_port(), free_port()]
    started = []

    def start(port):
        data = tmp_path / str(port)
        data.mkdir()
        started.append(subprocess.Popen([mongod, "--dbpath", data, "--port", str(port), "--bind_ip", "127.0.0.1", "--nounixsocket", "--replSet",
                                         "rs0", "--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "64"], stdout=subprocess.DEVNULL))
    try:
        start(ports[0])
        with open(tmp_path / "said", "wb") as said:
            setup = subprocess.Popen([program("pawl-setup"), "--uri", f"mongodb://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/?replicaSet=rs0",
                                      "--replica-set", "rs0", "--timeout", "150s"], stdout=said, stderr=said, env=environment())
        wait_until(lambda: f"127.0.0.1:{ports[1]}".encode() in (tmp_path / "said").read_bytes(), "what it waits for")
        assert setup.poll() is None
        start(ports[1])
        assert setup.wait(180) == 0, (tmp_path / "said").read_text()
        assert b"replica set rs0: initiated, with" in (tmp_path / "said").read_bytes()
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_setup_initiates_once(servers):
    server = servers("replica-set")
    port = server.client.address[1]
    done = run("pawl-setup", "--uri", f"mongodb://127.0.0.1:{port}/?directConnection=true", "--replica-set", "rs0",
               "--member", f"127.0.0.1:{port}")
    assert done.returncode == 0, done


def verdicts(done):
    """The word after each name."""
    return {line.split(": ")[0]: line.split(": ")[1].split(",")[0] for line in done.stdout.decode().splitlines()}


def test_dump_verify_asks_for_every_type_of_the_ledger(field, tmp_path):
    def verify(*arguments, where=field.dir):
        done = field.run("pawl-dump", "--verify", "--dir", where, *arguments)
        return done.returncode, verdicts(done)
    field.fill(20)
    field.fill(10, "t2")
    field.drain(types=("t1", "t2"))
    assert field.run("pawl-lock", "nightly", "--", "true").returncode == 0  # its ledger names no file
    assert verify() == (0, {"t1": "ok", "t2": "ok"})
    assert verify("--type", "nightly") == (1, {"nightly": "absent"})
    assert verify("--type", "t3") == (1, {"t3": "absent"})
    assert verify(where=tmp_path) == (3, {"t1": "missing", "t2": "missing"})
    assert verify("--db", f"{field.name}_wrong") == (3, {"t1": "unknown", "t2": "unknown"})
    done = field.run("pawl-dump", "--verify", field.dir / "t1.bin", "--db", f"{field.name}_wrong")
    assert done.returncode == 3 and f"in database {field.name}_wrong does not lead to this file".encode() in done.stdout
    before = field.ledger()
    field.fill(20)
    field.drain()
    assert verify("--type", "t1") == (0, {"t1": "ok"})
    field.ledgers.replace_one({"_id": "t1"}, before)  # a backup that is older than the files
    assert verify() == (3, {"t1": "stale ledger", "t2": "ok"})
    (field.dir / "t2.bin").rename(tmp_path / "t2.bin")
    assert verify() == (3, {"t1": "stale ledger", "t2": "missing"})


def nested(levels):
    """As bytes: pymongo itself gives up before MongoDB does."""
    inner = bson.encode({"n": bson.Int64(7)})
    for _ in range(levels - 2):
        inner = (len(inner) + 8).to_bytes(4, "little") + b"\x030\0" + inner + b"\0"
    head = bson.encode({"_id": bson.ObjectId(), "type": "t1"})[4:-1]
    return (len(head) + len(inner) + 8).to_bytes(4, "little") + head + b"\x03d\0" + inner + b"\0"


def test_what_is_nested_as_deep_as_mongodb_takes_it_is_restored(field):
    """180 levels: one more is refused by MongoDB."""
    raw = nested(180)
    field.insert("deep", [raw])
    assert field.acknowledged["deep"] == [raw]
    field.drain()
    for form, source in (("bson", "bson"), ("canonical", "ndjson"), ("relaxed", "ndjson")):
        dump = run("pawl-dump", "--dir", field.dir, "--format", form, "-n", 1)
        done = field.run("pawl-enqueue", "--from", source, stdin=dump.stdout)
        assert done.returncode == 0, done
        field.drain()
    found = [m.raw for m in stored(field)]
    relaxed = raw.replace(b"\x12n\0" + (7).to_bytes(8, "little"), b"\x10n\0" + (7).to_bytes(4, "little"))
    assert found[:3] == [raw] * 3 and len(found[3]) == len(relaxed)
    done = field.run("pawl-enqueue", "--from", "bson", stdin=nested(181))
    assert done.returncode == 1 and b"nested more than 180 levels deep" in done.stderr


# --- what all say ---


def said(path, *command, journal=False, **more):
    """The lines on stderr of a program that finds no MongoDB; as a unit of systemd's would."""
    with open(path, "wb") as stderr:
        status = os.fstat(stderr.fileno())
        stream = f"{status.st_dev}:{status.st_ino if journal else 1}"
        subprocess.run([program(command[0]), *map(str, command[1:])], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
                       env=environment(JOURNAL_STREAM=stream, **more), timeout=60, check=False)
    return path.read_text().splitlines()


def quick_ends(folder):
    nowhere = ["--uri", f"mongodb://127.0.0.1:{free_port()}"]
    worker = ["pawl-worker", "--type", "t1", "--timeout", "300ms", "--lease", "1s", *nowhere]
    return [(*worker, "--dir", folder), (*worker, "--dir", folder / "none"), ("pawl-enqueue", "--type", "a", "--type", "b", *nowhere)]


def test_json_lines_have_the_same_keys(tmp_path):
    for command in quick_ends(tmp_path):
        lines = [json.loads(line) for line in said(tmp_path / "log", *command, "--log-format", "json")]
        assert lines and all([key for key in line if key not in ("type", "epoch", "seq")] == ["time", "level", "program", "event", "text"]
                             for line in lines), lines
        assert {line["program"] for line in lines} == {command[0]}


def test_the_journal_gets_priorities_and_no_second_time(tmp_path):
    levels = {"error": "<3>", "warn": "<4>", "info": "<6>", "debug": "<7>"}
    for number, command in enumerate(quick_ends(tmp_path)):
        plain = said(tmp_path / "log", *command, "-v")
        journal = said(tmp_path / "log", *command, "-v", journal=True)
        assert plain and not any(line.startswith("<") for line in plain) and journal
        if number > 0:
            assert journal == ["<3>" + line for line in plain]
        else:
            assert plain and all(re.match(r"2\d{3}-\d\d-\d\dT", line) for line in plain) and "T" not in journal[0].split()[0]
            assert all(line.startswith(levels[re.match(r"<\d>(\w+) ", line)[1]]) for line in journal)
        lines = said(tmp_path / "log", *command, "--log-format", "json", journal=True)
        assert lines and all(line.startswith(levels[json.loads(line[3:])["level"]]) for line in lines)
    for name, arguments in (("pawl-dump", [tmp_path / "none.bin"]), ("pawl-status", ["--db", "a b"]), ("pawl-setup", ["x"]), ("pawl-lock", [])):
        lines = said(tmp_path / "log", name, *arguments, journal=True)
        assert lines and all(line.startswith("<3>") for line in lines), lines
