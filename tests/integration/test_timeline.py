"""pawl-dump --timeline: a picture of who wrote when and how much, judged as XML."""
import os
import re
import struct
import xml.etree.ElementTree as ElementTree

import pytest

from dumping import dump, flip
from harness import wait_until

SVG = "{http://www.w3.org/2000/svg}"


def draw(field, *arguments, code=0):
    done = dump(*(arguments or ("--dir", field.dir)), "--timeline", "-")
    assert done.returncode == code, done.stderr.decode()
    return ElementTree.fromstring(done.stdout), done.stderr.decode()


def titles(picture):
    return [title.text for title in picture.iter(f"{SVG}title")][1:]


def texts(picture):
    return ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]


def epochs(picture):
    return [title for title in titles(picture) if re.match(r"(\d+ epochs|epoch \d+): .*; (ended cleanly|no clean end so far)$", title)]


def test_each_epoch_has_a_bar(field):
    """Two types, three epochs; each says who, when and how much, and how it ended."""
    pids = []
    for n in (100, 50, 25):
        field.fill(n)
        pids.append(field.drain().pid)
    field.fill(7, type_name="t2")
    field.drain(types=("t2",))
    picture, _ = draw(field)
    found = epochs(picture)
    drawn = sum(int(match[1]) if (match := re.match(r"(\d+) epochs", title)) else 1 for title in found)
    assert drawn == 4, found
    assert sum(int(re.search(r"\): (\d+) messages?, ", title)[1]) for title in found) == 182
    assert all(title.endswith("; ended cleanly") for title in found)
    for pid in pids:
        assert any(f":{pid}" in title for title in titles(picture)), titles(picture)
    assert "t1" in " ".join(texts(picture)) and "175 messages, " in " ".join(texts(picture))
    assert any("took over from" in title and "after a clean end" in title for title in titles(picture)) or any("take-over" in t for t in found)
    description = picture.find(f"{SVG}desc").text
    assert "t1: 175 messages" in description and "t2: 7 messages" in description
    assert {element.tag.removeprefix(SVG) for element in picture.iter()} == {"svg", "title", "desc", "style", "rect", "text", "path", "g"}
    assert "prefers-color-scheme:dark" in picture.find(f"{SVG}style").text


def test_a_crash_and_a_gap_are_marked(field):
    """The holder is killed, and another takes over after its lease."""
    worker = field.worker("--linger", "1h")
    field.fill(10)
    wait_until(lambda: field.seq() == 10, lambda: str(worker))
    worker.kill()
    field.fill(10)
    field.drain()
    picture, _ = draw(field)
    assert any(title.startswith("nobody wrote: ") and "without a clean end before" in title for title in titles(picture)), titles(picture)
    assert any(re.match(rf"epoch 2: \S+ took over from \S+:{worker.pid}, without a clean end before", title) for title in titles(picture))
    assert [title.rpartition("; ")[2] for title in epochs(picture)] == ["no clean end so far", "ended cleanly"]


def test_selections(field):
    field.fill(10)
    field.fill(10, type_name="t2")
    field.drain(types=("t1", "t2"))
    picture, _ = draw(field, "--dir", field.dir, "--type", "t2")
    assert picture.find(f"{SVG}desc").text.startswith("t2: ") and "t1" not in texts(picture)
    picture, _ = draw(field, field.dir / "t1.bin")
    assert picture.find(f"{SVG}desc").text.startswith("t1.bin: 10 messages")
    done = dump("--dir", field.dir, "--until", "2001-01-01T00:00:00Z", "--timeline", "-")
    assert (done.returncode, done.stdout) == (1, b"") and b"--timeline: nothing to draw: " in done.stderr


def test_an_empty_directory(tmp_path):
    done = dump("--dir", tmp_path, "--timeline", tmp_path / "out.svg")
    assert done.returncode == 1 and b"--timeline: nothing to draw: there is no segment of these types" in done.stderr
    assert not os.listdir(tmp_path)


def test_the_file_appears_whole_and_replaces_none(field, tmp_path):
    field.fill(10)
    field.drain()
    folder = tmp_path / "pictures"
    folder.mkdir()
    out = folder / "out.svg"
    done = dump("--dir", field.dir, "--timeline", out)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    whole = out.read_bytes()
    ElementTree.fromstring(whole)
    assert os.listdir(folder) == ["out.svg"] and out.stat().st_mode & 0o777 == 0o666 & ~umask()
    out.write_text("mine")
    done = dump("--dir", field.dir, "--timeline", out)
    assert done.returncode == 2 and b"out.svg exists already, and is not replaced" in done.stderr and out.read_text() == "mine"
    done = dump("--dir", field.dir, "--timeline", tmp_path / "none/out.svg")
    assert done.returncode == 1 and b"No such file or directory" in done.stderr


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_damage(field):
    """As in the other formats: exit 3. What is before it is drawn, and with --keep-going what is after it, too."""
    for _ in range(4):
        field.fill(10)
        field.drain()
    path = field.dir / "t1.bin"
    lines = [line.split() for line in dump("--dir", field.dir, "--format", "blocks").stdout.decode().splitlines()]
    flip(path, [int(line[1]) for line in lines if line[2] == "data"][1] + 40)
    picture, said = draw(field, "--dir", field.dir, code=3)
    some = int(re.search(r"t1: (\d+) messages", picture.find(f"{SVG}desc").text)[1])
    assert "damaged: " in said and 0 < some < 40 and "not all was read: damaged, or newer" in texts(picture)
    picture, said = draw(field, "--dir", field.dir, "--keep-going", code=3)
    assert some < int(re.search(r"t1: (\d+) messages", picture.find(f"{SVG}desc").text)[1]) < 40


def test_hostile_names(field):
    """A host in the header may be any text: it stays text, and the picture well-formed."""
    field.fill(10)
    field.drain()
    path = field.dir / "t1.bin"
    raw = bytearray(path.read_bytes())
    at = raw.index(b"\x02host\x00")
    size = struct.unpack_from("<i", raw, at + 6)[0]
    hostile = "</text><script>alert(1)</script>&\u202e\x1b"
    fill_at = raw.index(b"\x05_fill\x00")
    name = hostile.encode() + b"\x00"
    grown = len(name) - size
    info = struct.unpack_from("<i", raw, 262)[0]
    raw[at + 6:at + 10 + size] = struct.pack("<i", len(name)) + name
    struct.pack_into("<i", raw, 262, info + grown)
    fill_at += grown
    fill = struct.unpack_from("<i", raw, fill_at + 7)[0]
    struct.pack_into("<i", raw, fill_at + 7, fill - grown)
    del raw[fill_at + 12:fill_at + 12 + grown]
    relinked(raw)
    path.write_bytes(raw)
    picture, _ = draw(field)
    assert picture.find(f".//{SVG}script") is None
    assert any("</text><script>alert(1)</script>&\ufffd\ufffd:" in text for text in texts(picture) + titles(picture)), texts(picture)


def relinked(raw):
    """The header's CRC, and what follows from it in each marker."""
    import reader  # the independent one, in tests/
    crc = reader.crc32c(bytes(raw[:252]) + bytes(raw[256:4096]))
    struct.pack_into("<I", raw, 252, crc)
    link, at = crc << 32, 4096
    while at + 128 <= len(raw):
        struct.pack_into("<Q", raw, at + 88, link)
        own = reader.crc32c(bytes(raw[at:at + 120]))
        struct.pack_into("<I", raw, at + 120, own)
        link = own << 32 | struct.unpack_from("<I", raw, at + 100)[0]
        at += 128 + struct.unpack_from("<I", raw, at + 20)[0]


@pytest.mark.slow
def test_the_size_is_bounded(field):
    """Hundreds of epochs and two types: some thousands of elements at most."""
    for _ in range(60):
        field.fill(3)
        field.fill(3, type_name="t2")
        field.drain("--batch-messages", "1", types=("t1", "t2"))
    picture, _ = draw(field)
    assert len(list(picture.iter())) < 6000
    assert sum(int(re.search(r"\): (\d+) messages?, ", title)[1]) for title in epochs(picture)) == 360


@pytest.mark.parametrize("more", [["--verify"], ["--count"], ["-f"], ["-n", "1"], ["--tail", "1"], ["--where", "n=1"]])
def test_what_it_does_not_go_with(tmp_path, more):
    done = dump("--dir", tmp_path, "--timeline", "-", *more)
    assert done.returncode == 2 and b"--timeline draws whole blocks" in done.stderr
