#!/usr/bin/env python3
"""An independent reader of pawl's storage files, written from docs/format.md and from nothing else.

It exists to disagree with the C code: the tests compare what it finds with what was put in. It reads whole files
into memory, knows no repair and raises Violation at the first byte below the limit that is not as the format says.

    python3 tests/reader.py DIR [TYPE]       one line a message: seq, epoch, offset, bytes, BSON type and bytes of _id
    python3 tests/reader.py FILE             the same for one segment
"""
import re
import struct
import subprocess
import sys
from bisect import bisect_left
from collections import namedtuple
from pathlib import Path

try:
    from google_crc32c import value as crc32c
except ImportError:
    TABLE = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        TABLE.append(byte)

    def crc32c(data):
        crc = 0xFFFFFFFF
        for octet in data:
            crc = TABLE[(crc ^ octet) & 255] ^ crc >> 8
        return crc ^ 0xFFFFFFFF

HEADER_START = bytes.fromhex("00100000 05") + b"_pawl\0" + bytes.fromhex("f0000000 80")
MARKER_START = bytes.fromhex("80000000 05") + b"_pawl\0" + bytes.fromhex("6f000000 80")
DATA, OPEN, CLOSE, PAD = 1, 2, 3, 4
DECODED_MAX = 80 << 20

Message = namedtuple("Message", "seq epoch offset raw")
Block = namedtuple("Block", "offset end kind epoch seq count time number previous skip link_after messages items")
Header = namedtuple("Header", "uuid epoch seq created number crc predecessor info")
Predecessor = namedtuple("Predecessor", "name uuid epoch length seq link tail")
Segment = namedtuple("Segment", "path header blocks messages length tail link seq items rest")


class Violation(Exception):
    """The file is not what the format says."""


class Newer(Violation):
    """The file needs a newer reader."""


def need(condition, where, what):
    if not condition:
        raise Violation(f"{where}: {what}")


# --- BSON: only as much as it takes to walk over it -------------------------------------------------------------

SIZES = {1: 8, 6: 0, 7: 12, 8: 1, 9: 8, 10: 0, 16: 4, 17: 8, 18: 8, 19: 16, 127: 0, 255: 0}


def documents(body, where):
    """Splits documents that lie back to back; each has a length, and a zero at its end."""
    at, found = 0, []
    while at < len(body):
        need(len(body) - at >= 5, where, "a document is cut off")
        size = struct.unpack_from("<i", body, at)[0]
        need(5 <= size <= len(body) - at and body[at + size - 1] == 0, where, "a document's length is wrong")
        found.append(body[at:at + size])
        at += size
    return found


def elements(document):
    """Yields (name, type, raw value) of a document's elements; raises ValueError, IndexError or struct.error on bad BSON."""
    at = 4
    while document[at]:
        kind, end = document[at], document.index(0, at + 1)
        name, at = document[at + 1:end], end + 1
        if kind in SIZES:
            size = SIZES[kind]
        elif kind == 11:
            size = document.index(0, document.index(0, at) + 1) + 1 - at
        else:
            size = struct.unpack_from("<i", document, at)[0] + {2: 4, 13: 4, 14: 4, 3: 0, 4: 0, 15: 0, 5: 5, 12: 16}[kind]
        yield name, kind, document[at:at + size]
        at += size


def element(document, name):
    """(type, raw value) of the first element of that name, or None."""
    return next(((kind, raw) for found, kind, raw in elements(document) if found == name), None)


def text(value):
    return value[1][4:-1].decode() if value and value[0] == 2 else None


def bundle(document):
    """The documents of a bundle, {_id, type, batch: [at least one document]}; None: it is a plain message."""
    try:
        fields = list(elements(document))
        batch = next((value for name, kind, value in fields if name == b"batch" and kind == 4), None)
        found = list(elements(batch)) if batch else []
    except (ValueError, IndexError, struct.error):
        return None
    if sorted(name for name, _, _ in fields) != [b"_id", b"batch", b"type"] or not found or any(kind != 3 for _, kind, _ in found):
        return None
    return [value for _, _, value in found]


# --- zstd -------------------------------------------------------------------------------------------------------


def unzstd(frame, decoded, where):
    """One frame, its content size present and as promised, no dictionary (the frame header as RFC 8878 has it)."""
    need(frame[:4] == b"\x28\xb5\x2f\xfd", where, "no zstd frame")
    descriptor = frame[4]
    need(descriptor & 3 == 0, where, "the zstd frame wants a dictionary")
    single, width = descriptor >> 5 & 1, (1, 2, 4, 8)[descriptor >> 6]
    need(single or width > 1, where, "the zstd frame does not say its content's size")
    at = 5 + (not single)
    size = int.from_bytes(frame[at:at + width], "little") + (256 if width == 2 else 0)
    need(size == decoded, where, "the zstd frame's content size is not the decoded length")
    try:
        import zstandard
        decoder = zstandard.ZstdDecompressor().decompressobj()
        try:
            plain = decoder.decompress(frame)
        except zstandard.ZstdError as problem:
            raise Violation(f"{where}: {problem}") from problem
        need(decoder.eof and not decoder.unused_data, where, "not exactly one zstd frame")
    except ImportError:
        run = subprocess.run(["zstd", "-dcq"], input=frame, capture_output=True, check=False)
        need(run.returncode == 0, where, run.stderr.decode(errors="replace").strip())
        plain = run.stdout
    need(len(plain) == decoded, where, "decoded to another length")
    return plain


# --- one segment ------------------------------------------------------------------------------------------------


def read_header(data, path):
    where = f"{path} header"
    need(len(data) >= 4096 and data[:16] == HEADER_START, where, "not a header")
    need(struct.unpack_from("<I", data, 252)[0] == crc32c(data[:252] + data[256:4096]), where, "checksum")
    version, kind, log2, zero, incompat = struct.unpack_from("<4BI", data, 16)
    if version != 1 or incompat:
        raise Newer(f"{where}: version {version}, features {incompat:x}")
    need((kind, log2, zero) == (0, 12, 0) and not any(data[136:252]), where, "a constant field is wrong")
    epoch, seq, created, number = struct.unpack_from("<4q", data, 48)
    uuid, p_epoch, p_length, p_seq, p_link, p_tail = struct.unpack_from("<16s3qQq", data, 80)
    rest = list(elements(data[:4096]))
    need([(name, kind) for name, kind, _ in rest] == [(b"_pawl", 5), (b"info", 3), (b"_fill", 5)], where, "its elements")
    need(rest[2][2][4] == 0 and not any(rest[2][2][5:]) and data[4095] == 0, where, "its filling")
    info = rest[1][2]
    type_name, name = text(element(info, b"type")), text(element(info, b"predecessor"))
    need(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", type_name or ""), where, "its type")
    if name == "":
        need(not any(data[80:136]) and number == 0 and seq == 1, where, "a first segment with a predecessor's fields")
        predecessor = None
    else:
        need(re.fullmatch(re.escape(type_name) + r"(@[1-9][0-9]*)?\.bin", name or ""), where, f"predecessor {name!r}")
        need(seq == p_seq + 1 and number > 0 and p_epoch < epoch, where, "it does not continue its predecessor")
        predecessor = Predecessor(name, uuid, p_epoch, p_length, p_seq, p_link, p_tail)
    return Header(data[32:48], epoch, seq, created, number, struct.unpack_from("<I", data, 252)[0], predecessor, info)


def read_block(data, at, limit, header, blocks, path):
    """The block at `at`, or an exception. `blocks` are those before it."""
    where = f"{path} offset {at}"
    need(limit - at >= 128, where, "no room for a marker")
    marker = data[at:at + 128]
    need(marker[:16] == MARKER_START, where, "not a marker")
    need(struct.unpack_from("<I", marker, 120)[0] == crc32c(marker[:120]), where, "header checksum")
    (version, kind, codec, flags, stored, decoded, count, file_id, own, epoch, seq, time, previous, skip, link, number, body_crc,
     items) = struct.unpack_from("<4B3I8s6qQ3I", marker, 16)
    if version != 1 or flags or codec > 1 or (kind not in (DATA, OPEN, CLOSE, PAD) and kind < 128):
        raise Newer(f"{where}: version {version}, kind {kind}, codec {codec}, flags {flags}")
    need(not any(marker[108:120]) and not any(marker[124:]), where, "reserved bytes")
    need(file_id == header.uuid[:8] and own == at, where, "a block of another place")
    last = blocks[-1] if blocks else None
    need(previous == (last.offset if last else 0), where, "block before")
    need(link == (last.link_after if last else header.crc << 32), where, "link")
    need(number == len(blocks), where, "number")
    need(seq == (last.seq + last.count if last else header.seq), where, "seq")
    need(time >= (last.time if last else header.created), where, "time falls")
    before = last.epoch if last else header.epoch
    need(epoch >= before and (epoch == before or kind in (OPEN, PAD)), where, "epoch")
    if last and last.kind == PAD and last.epoch > (blocks[-2].epoch if len(blocks) > 1 else header.epoch):
        need(kind == OPEN and epoch == last.epoch, where, "a PAD raised the epoch and no OPEN follows")
    need(skip == skip_offset(blocks), where, "skip offset")
    need(at + 128 + stored <= limit, where, "its body reaches over the limit")
    body = data[at + 128:at + 128 + stored]
    need(body_crc == crc32c(body), where, "body checksum")
    need(decoded <= DECODED_MAX, where, "decoded length")
    messages = []
    if kind == DATA:
        need(count > 0, where, "DATA without a message")
        if codec == 0:
            need(decoded == stored, where, "decoded length")
        else:
            wrapped = documents(body, where)
            parts = list(elements(wrapped[0])) if len(wrapped) == 1 else []
            need([(n, k) for n, k, _ in parts] == [(b"_z", 5)] and parts[0][2][4] == 0, where, "not {_z: binary}")
            body = unzstd(parts[0][2][5:], decoded, where)
        raws = documents(body, where)
        need(len(raws) == count, where, f"{len(raws)} messages, {count} promised")
        messages = [Message(seq + i, epoch, at, raw) for i, raw in enumerate(raws)]
    else:
        need((count, codec, items) == (0, 0, 0) and decoded == stored, where, "counts of a block without messages")
        need(kind >= 128 or len(documents(body, where)) == 1, where, "not one document")
        if kind == CLOSE:
            own_blocks = [b for b in blocks if b.kind == DATA]
            counts = {n: struct.unpack("<q", raw)[0] for n, k, raw in elements(body) if k == 18}
            need(counts == {b"messages": sum(b.count for b in own_blocks), b"items": sum(b.items for b in own_blocks)}, where,
                 f"CLOSE counts {counts}")
        if kind == PAD:
            value = element(body, b"_")
            need(value and value[0] == 5 and not any(value[1][4:]) and (at + 128 + stored) % 4096 == 0, where, "PAD")
            need(128 + stored < 4096 + 160, where, "PAD longer than it need be")
    link_after = struct.unpack_from("<I", marker, 120)[0] << 32 | body_crc
    return Block(at, at + 128 + stored, kind, epoch, seq, count, time, number, previous, skip, link_after, messages, items)


def skip_offset(blocks):
    """skip(n) = skip(skip(p)) if p - skip(p) == skip(p) - skip(skip(p)), else p, where p = n - 1; as an offset."""
    def skip(number):
        return bisect_left(blocks, blocks[number].skip, key=lambda block: block.offset)
    if not blocks:
        return 0
    p = len(blocks) - 1
    one, two = skip(p), skip(skip(p))
    return blocks[two if p - one == one - two else p].offset


def read_segment(path, limit=None):
    """Reads one segment up to `limit` bytes, all of which must be right; without a limit up to its last valid block, and
    then nothing that follows may prove that messages are missing. `rest` is the number of bytes beyond that."""
    data = Path(path).read_bytes()
    header = read_header(data, path)
    need(limit is None or 4096 <= limit <= len(data), path, f"{len(data)} bytes, {limit} are committed")
    blocks, at, end = [], 4096, len(data) if limit is None else limit
    while at < end:
        try:
            block = read_block(data, at, end, header, blocks, path)
        except Newer:
            raise
        except (Violation, ValueError, IndexError, KeyError, struct.error) as problem:
            if limit is not None:
                raise problem if isinstance(problem, Violation) else Violation(f"{path} offset {at}: {problem!r}") from problem
            search_on(data, at, header, blocks[-1].seq + blocks[-1].count if blocks else header.seq, path)
            break
        blocks.append(block)
        at = block.end
    last = blocks[-1] if blocks else None
    return Segment(Path(path), header, blocks, [m for b in blocks for m in b.messages], at, last.offset if last else 0,
                   last.link_after if last else header.crc << 32, last.seq + last.count - 1 if last else header.seq - 1,
                   sum(b.items for b in blocks), len(data) - at)


def search_on(data, at, header, seq, path):
    while (at := data.find(MARKER_START, at + 1)) >= 0 and len(data) - at >= 128:
        file_id, own, _, found = struct.unpack_from("<8s3q", data, at + 32)
        right = struct.unpack_from("<I", data, at + 120)[0] == crc32c(data[at:at + 120])
        need(not (right and file_id == header.uuid[:8] and own == at and found > seq), f"{path} offset {at}",
             f"a block of seq {found} proves that committed messages from {seq} on are missing")


# --- a type: the chain of its segments ---------------------------------------------------------------------------


def segments_of(directory, type_name):
    """Path and header of each segment with a complete, valid header, the one of the highest epoch first."""
    found = []
    for path in Path(directory).iterdir():
        if re.fullmatch(re.escape(type_name) + r"(@[1-9][0-9]*)?\.bin", path.name):
            try:
                with open(path, "rb") as file:
                    found.append((path, read_header(file.read(4096), path)))
            except Newer:
                raise
            except Violation:
                continue
    return sorted(found, key=lambda entry: -entry[1].epoch)


def read_chain(directory, type_name, ledger=None):
    """The segments of a type, oldest first, each checked at its end against what names it: successor or ledger."""
    directory = Path(directory)
    if ledger is not None:
        if not ledger.get("file"):
            return []
        name, limit = ledger["file"], int(ledger["length"])
    else:
        found = segments_of(directory, type_name)
        while found and is_orphan(directory, found[0][1]):
            found.pop(0)
        if not found:
            return []
        name, limit = found[0][0].name, None
    chain, successor = [], None
    while name:
        segment = read_segment(directory / name, limit)
        header = segment.header
        need(text(element(header.info, b"type")) == type_name, name, "another type's")
        if successor:
            named, number = successor.header.predecessor, successor.header.number
            need((header.uuid, header.epoch, segment.length, segment.seq, segment.link, segment.tail) == named[1:], name,
                 "not what its successor says")
            need(number == header.number + 1 and successor.header.created >= header.created, name, "number or time")
            need(not segment.blocks or segment.blocks[-1].epoch < successor.header.epoch, name, "its epoch is not below")
        elif ledger is not None:
            need((header.uuid, segment.tail, segment.link, segment.seq) ==
                 (bytes(ledger["uuid"]), int(ledger["tail"]), int(ledger["link"]) % 2**64, int(ledger["seq"])), name,
                 "not what the ledger says")
        chain.insert(0, segment)
        successor, predecessor = segment, header.predecessor
        name, limit = (predecessor.name, predecessor.length) if predecessor else (None, None)
    if ledger is not None:
        need(sum(s.items for s in chain) == int(ledger["items"]), type_name, "items are not the ledger's")
    return chain


def is_orphan(directory, header):
    before = header.predecessor
    if not before or not (directory / before.name).exists():
        return False
    data = (directory / before.name).read_bytes()
    own = read_segment(directory / before.name, before.length)
    try:
        return read_block(data, before.length, len(data), own.header, own.blocks, before.name).epoch > header.epoch
    except Violation:
        return False


def read_type(directory, type_name, ledger=None):
    """All committed messages of a type, in order; `ledger` is its ledger document as a dict, or None: offline."""
    messages = [m for segment in read_chain(directory, type_name, ledger) for m in segment.messages]
    for seq, message in enumerate(messages, 1):
        need(message.seq == seq, type_name, f"seq {message.seq}, expected {seq}")
    return messages


def main(arguments):
    path = Path(arguments[0])
    if path.is_dir():
        types = arguments[1:] or sorted({re.sub(r"(@[1-9][0-9]*)?\.bin$", "", p.name) for p in path.glob("*.bin")})
        messages = [m for type_name in types for m in read_type(path, type_name)]
    else:
        messages = read_segment(path).messages
    for message in messages:
        kind, raw = element(message.raw, b"_id") or (0, b"")
        print(message.seq, message.epoch, message.offset, len(message.raw), f"{kind}:{raw.hex()}", sep="\t")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1:])
    except BrokenPipeError:
        sys.stderr.close()
    except (Violation, OSError) as problem:
        sys.exit(f"reader.py: {problem}")
