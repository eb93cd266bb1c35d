#!/usr/bin/env python3
"""The inputs of the targets that read storage files (image.h), packed and unpacked; and the seeds of all corpora.

  image.py pack [--mode N] [--format N] [--switches N] OUT FILE...   segments t1.bin, t1@2.bin, ... as one input
  image.py unpack INPUT DIR                                          the segments of an input, for pawl-dump
  image.py seeds                                                     writes the hand-made inputs into corpus/ afresh
"""
import argparse
import random
import re
import struct
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path.insert(0, str(TESTS / "dump"))
import segment as made  # noqa: E402

NONE, GIVEN, TRUE, CHANGED = range(4)
RELAXED, CANONICAL, PAYLOAD, BSON, HEX, BLOCKS, SUMMARY, NOTHING = range(8)
META, COUNT, UNCONFIRMED, STRICT, KEEP, VERIFY, DEEP, QUIET = (1 << bit for bit in range(8))
FROM, TO, SINCE, UNTIL, LIMIT, TAIL, DIR, TYPE = (1 << bit for bit in range(10, 18))


def epoch_of(path):
    found = re.fullmatch(r".*?(?:@(\d+))?\.bin", Path(path).name)
    return int(found[1] or 0) if found else 0


def pack(files, mode=NONE, format=RELAXED, switches=0, seek=2, length=0, seq=8, block=255, file=255, small=(9, 3)):
    control = bytearray(64)
    struct.pack_into("<BxI", control, 0, mode, switches)
    struct.pack_into("<QQQQQ", control, 8, length, 0, seq, 0, seek)
    struct.pack_into("<QBBBBB", control, 48, 0x04030201, block, (len(files) - 1) if file == 255 else file, *small, format)
    return bytes(control) + b"".join(struct.pack("<BI", epoch_of(path), len(raw))[:4] + raw for path, raw in files)


def unpack(raw, folder):
    raw, at = raw.ljust(64, b"\0"), 64
    while len(raw) - at >= 4:
        epoch, length = raw[at], int.from_bytes(raw[at + 1:at + 4], "little")
        name = f"t1@{epoch}.bin" if epoch else "t1.bin"
        (folder / name).write_bytes(raw[at + 4:at + 4 + length])
        at += 4 + length
    return raw[:64]


# --- segments worth beginning with ---

def every_type():
    """One message with an element of every BSON type, and strings that need care."""
    e, d, t = made.element, made.document, made.text
    inner = d(t("s", b"\xff\xfe"), e(4, "a", d(e(8, "0", b"\1"), e(10, "1", b""))))
    return d(e(7, "_id", bytes(range(12))), t("type", "t1"), t("payload", "a\n\"\\\x1b\u00e9\u2028"), e(1, "d", struct.pack("<d", 1.5)),
             e(1, "n", struct.pack("<d", float("nan"))), e(3, "o", inner), e(5, "b", struct.pack("<iB", 3, 0) + b"abc"),
             e(5, "b2", struct.pack("<iBi", 7, 2, 3) + b"abc"), e(6, "u", b""), e(8, "t", b"\0"), e(9, "w", struct.pack("<q", 1700000000000)),
             e(9, "w2", struct.pack("<q", -1 << 62)), e(10, "z", b""), e(11, "r", b"^a/\xff\0ix\0"),
             e(12, "p", struct.pack("<i", 2) + b"c\0" + bytes(12)), e(13, "c", struct.pack("<i", 2) + b"f\0"), e(14, "y", struct.pack("<i", 2) + b"g\0"),
             e(15, "cs", struct.pack("<ii", 4 + 4 + 2 + 5, 2) + b"h\0" + d()), e(16, "i", struct.pack("<i", -1)),
             e(17, "ts", struct.pack("<Q", 1 << 32 | 5)), e(18, "l", struct.pack("<q", 1 << 60)), e(19, "dec", bytes(14) + b"\x40\x30"),
             e(255, "min", b""), e(127, "max", b""), e(2, b"\xc3", struct.pack("<i", 1) + b"\0"))


def bundle(number):
    documents = [made.element(3, str(i), made.document(made.int64("n", i))) for i in range(3)]
    return made.document(made.element(7, "_id", struct.pack(">IQ", 2, number)), made.text("type", "t1"), made.element(4, "batch", made.document(*documents)))


def nested(depth):
    inner = made.document()
    for _ in range(depth):
        inner = made.document(made.element(3, "a", inner))
    return inner


def segments(folder):
    """Name: the segment, or the chain of segments."""
    def start(name="t1.bin", **more):
        return made.Segment(folder / name, **more)
    yield "bare", [start()]
    yield "plain", [start().numbered(1, 2).numbered(3).close()]
    yield "epochs", [start().numbered(1).open(2).numbered(2, 3).close().open(5).numbered(4).open(6)]
    yield "pad", [start().numbered(1).add(made.PAD, made.document(made.binary("_", bytes(20)))).open(2).numbered(2)]
    yield "unknown", [start().numbered(1).add(200, b"future").numbered(2)]
    yield "newer", [start().numbered(1).add(77, b"future").numbered(2)]
    yield "types", [start().data(every_type()).data(bundle(1), made.message(2), made.message(2, "x", "t2"))]
    yield "payloads", [start().data(*(made.document(element) for element in (
        made.int64("payload", 5), made.element(3, "payload", bundle(1)), made.binary("payload", b"\0\xff"),
        made.element(11, "payload", b"\xff\0i\0"), made.element(10, "payload", b""), made.element(99, "payload", b"x"))))]
    yield "nested", [start().data(nested(40)).data(nested(200))]
    many = start()
    for number in range(1, 13):
        many.numbered(number)
    yield "many", [many]
    first = start().numbered(1, 2)
    second = start("t1@2.bin", epoch=2, predecessor=first, first_seq=3, number=1).numbered(3)
    yield "chain", [first, second, start("t1@4.bin", epoch=4, predecessor=second, first_seq=4, number=2).numbered(4).close()]
    first = start().numbered(1, 2)
    second = start("t1@2.bin", epoch=2, predecessor=first, first_seq=3, number=1)
    first.open(3).numbered(3)
    yield "orphan", [first, second]


def seeds_of_segments(corpus):
    made.os.urandom = random.Random(7).randbytes
    chosen = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, chain in segments(Path(folder)):
            chosen[name] = [(s.path.name, s.path.read_bytes()) for s in chain]
    vectors = [(n, (TESTS / "vectors" / n).read_bytes()) for n in ("t1.bin", "t1@4.bin", "t1@5.bin", "t1@6.bin")]
    golden = [("t1.bin", (TESTS / "golden" / "z1.bin").read_bytes())]
    for name, files in chosen.items():
        yield "chain" if len(files) > 1 else "reader", name, pack(files, mode=CHANGED if len(files) % 2 else NONE)
    plain = dict(chosen["many"])["t1.bin"]
    yield "reader", "true-end", pack(chosen["epochs"], mode=TRUE, block=4)
    yield "reader", "given-end", pack(chosen["plain"], mode=GIVEN, length=2 * 4096)
    yield "reader", "torn", pack([("t1.bin", plain[:-20])])
    yield "reader", "flipped", pack([("t1.bin", plain[:4600] + b"\xff" + plain[4601:])], mode=TRUE)
    yield "reader", "zstd", pack(golden, mode=TRUE)
    yield "reader", "vector", pack(vectors[3:], mode=TRUE)
    yield "chain", "vectors", pack([(n, raw[:5200] if n == "t1.bin" else raw) for n, raw in vectors], mode=TRUE)
    yield "chain", "pruned", pack(chosen["chain"][1:], mode=TRUE)
    yield "chain", "missing", pack([chosen["chain"][0], chosen["chain"][2]])
    for number, form in enumerate(("relaxed", "canonical", "payload", "bson", "hex", "blocks", "summary")):
        yield "dump", form, pack(chosen["types" if number < 4 else "epochs"], format=number, switches=META if number in (0, 1, 3) else 0)
    yield "dump", "deep", pack(chosen["types"], switches=VERIFY | DEEP | DIR)
    yield "dump", "payloads", pack(chosen["payloads"], format=PAYLOAD)
    yield "dump", "nested", pack(chosen["nested"], switches=KEEP)
    yield "dump", "verify", pack(chosen["chain"], mode=TRUE, switches=VERIFY | DIR | TYPE)
    yield "dump", "ledger", pack(chosen["many"], mode=TRUE, block=3, switches=UNCONFIRMED | DIR)
    yield "dump", "strict", pack(chosen["pad"], switches=STRICT | FROM)
    yield "dump", "tail", pack(chosen["many"], switches=TAIL | COUNT)
    yield "dump", "when", pack(chosen["plain"], switches=SINCE | UNTIL | LIMIT, format=PAYLOAD)
    yield "dump", "keep", pack([("t1.bin", plain[:4600] + b"\xff" + plain[4601:])], switches=KEEP | QUIET)
    yield "dump", "zstd", pack(golden, switches=VERIFY | DEEP)
    yield "dump", "orphan", pack(chosen["orphan"], switches=DIR, format=SUMMARY)


WORKER, ENQUEUE, STATUS, SETUP, DUMP, LOCK = range(6)


def seeds_of_texts():
    def config(program, *lines):
        return bytes([program]) + "\n".join(lines).encode()
    yield "config", "worker", config(WORKER, "A--type=t1,t2", "A--lease", "A30s", "ECODEC=zstd", "Fpoll = 250ms", "F# remark", "Funcommon=1")
    yield "config", "file", config(WORKER, "Ftype = a , b", "Ffile-mode = 0600", "Fsegment-bytes=64MiB", "A--print-config", "Fdb = x ; y")
    yield "config", "dump", config(DUMP, "A--format=payload", "A--separator=\\n\\0", "A-n3", "A--since=15m", "Afile.bin", "A--", "A-x")
    yield "config", "when", config(DUMP, "A--until=2023-11-14T22:13:20.5+01:00", "A--from-seq=none", "A--tail", "A9")
    yield "config", "time", bytes([DUMP]) + b"2023-02-28T22:13:20Z"
    yield "config", "uri-file", config(STATUS, "Umongodb://u@h/db\r", "U", "A--json", "A--watch=no")
    yield "config", "listen", config(WORKER, "A--health", "A--listen=[::1]:9464", "ELISTEN=127.0.0.1:9464", "Flisten = 9464")
    yield "config", "help", config(SETUP, "A--help", "A--adopt=t1")
    for number in range(14):
        program = (STATUS, WORKER, DUMP, SETUP, ENQUEUE, LOCK)[number % 6]
        yield "config", f"password-{number}", config(program, "P" + chr(ord("0") + number) + chr(48 + number % 6) + "user|p@:/?|h:27017,h2/db?replicaSet=r&x=y",
                                                     "A--print-config")

    def enqueue(form, types, raw):
        return bytes([form + 3 * types]) + raw
    relaxed = (TESTS / "vectors" / "t1.relaxed.ndjson").read_bytes().splitlines(True)
    canonical = (TESTS / "vectors" / "t1.canonical.ndjson").read_bytes().splitlines(True)
    yield "input", "lines", enqueue(0, 1, b"one\n\ntwo \xc3\xa9\n\xff\xfe\nlast")
    yield "input", "relaxed", enqueue(1, 0, b"".join(relaxed[:3]))
    yield "input", "canonical", enqueue(1, 2, b"".join(canonical[4:7]))
    special = (b'{"a":{"$date":"2023-11-14T22:13:20Z"},"b":{"$numberLong":"5"},"c":{"$binary":{"base64":"AAE=","subType":"00"}}}\n'
               b'{"a":{"$oid":"000000000000000000000001"},"b":{"$timestamp":{"t":1,"i":2}},"c":{"$minKey":1},"d":{"$regularExpression":{"pattern":"x","options":"i"}}}\n'
               b'{"a":{"$code":"f","$scope":{"x":1}},"b":{"$numberDecimal":"1E+3"},"c":{"$dbPointer":{"$ref":"c","$id":{"$oid":"000000000000000000000001"}}}}\n'
               b'{"a":{"$symbol":"s"},"b":{"$undefined":true},"c":{"$numberDouble":"NaN"},"d":"\\u00e9\\ud83d\\ude00","e":{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"}}\n')
    yield "input", "special", enqueue(1, 1, special)
    for number, line in enumerate(special.splitlines(True)):
        yield "input", f"special-{number}", enqueue(1, 1, line)
    yield "input", "bad-json", enqueue(1, 1, b'{"a":1}}\n{"a":[}\n  \n{"a" 1}\nnull\n[]\n{"_id":1,"type":"t1"} x\n{"type":5}')
    yield "input", "bson", enqueue(2, 0, every_type() + bundle(1) + made.message(3))
    yield "input", "bson-typed", enqueue(2, 1, made.document(made.int64("a", 1)) + made.document() + made.message(1))
    yield "input", "bson-nested", enqueue(2, 1, nested(99) + nested(101) + b"\5\0\0\0\1")


def seeds(corpus):
    total = 0
    for target, name, raw in [*seeds_of_segments(corpus), *seeds_of_texts()]:
        (corpus / target).mkdir(parents=True, exist_ok=True)
        (corpus / target / name).write_bytes(raw)
        total += len(raw)
    print(f"{total} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packs = commands.add_parser("pack")
    for option in ("--mode", "--format", "--switches"):
        packs.add_argument(option, type=lambda text: int(text, 0), default=0)
    packs.add_argument("out", type=Path)
    packs.add_argument("files", nargs="+", type=Path)
    unpacks = commands.add_parser("unpack")
    unpacks.add_argument("input", type=Path)
    unpacks.add_argument("dir", type=Path)
    commands.add_parser("seeds")
    given = parser.parse_args()
    if given.command == "pack":
        given.out.write_bytes(pack([(path.name, path.read_bytes()) for path in given.files], given.mode, given.format, given.switches))
    elif given.command == "unpack":
        given.dir.mkdir(parents=True, exist_ok=True)
        print("control bytes:", unpack(given.input.read_bytes(), given.dir).hex())
    else:
        seeds(HERE / "corpus")


if __name__ == "__main__":
    main()
