"""reader.py against the golden files of tests/vectors, which no program of ours regenerates."""
import json
import shutil
from pathlib import Path

import pytest
from bson import decode, json_util

import reader

VECTORS = Path(__file__).parent / "vectors"


def expected():
    return [json.loads(line) for line in (VECTORS / "t1.canonical.ndjson").read_text().splitlines()]


def found(messages):
    return [json.loads(json_util.dumps(decode(m.raw), json_options=json_util.CANONICAL_JSON_OPTIONS)) for m in messages]


def ledger():
    return json_util.loads((VECTORS / "ledger.json").read_text())


def test_with_ledger():
    assert found(reader.read_type(VECTORS, "t1", ledger())) == expected()


def test_offline():
    assert found(reader.read_type(VECTORS, "t1")) == expected()


def test_without_wheels(monkeypatch):
    """The pure-Python checksum and the zstd command give the same."""
    import builtins
    import importlib
    real = builtins.__import__

    def no_wheels(name, *rest, **more):
        if name in ("google_crc32c", "zstandard"):
            raise ImportError(name)
        return real(name, *rest, **more)
    if not shutil.which("zstd"):
        pytest.skip("no zstd command")
    monkeypatch.setattr(builtins, "__import__", no_wheels)
    try:
        plain = importlib.reload(reader)
        assert plain.crc32c(b"123456789") == 0xE3069283 and plain.crc32c(b"") == 0
        assert found(plain.read_type(VECTORS, "t1", ledger())) == expected()
    finally:
        monkeypatch.undo()
        importlib.reload(reader)


def test_link_as_negative_number():
    document = ledger()
    document["link"] = int(document["link"]) - 2**64
    reader.read_type(VECTORS, "t1", document)


@pytest.mark.parametrize("field,wrong", [("link", 1), ("seq", 32), ("tail", 4513), ("length", 4748), ("uuid", bytes(16)), ("items", 34)])
def test_ledger_disagrees(field, wrong):
    with pytest.raises(reader.Violation):
        reader.read_type(VECTORS, "t1", {**ledger(), field: wrong})


def committed_lengths():
    return {segment.path.name: segment.length for segment in reader.read_chain(VECTORS, "t1", ledger())}


@pytest.mark.parametrize("name", committed_lengths())
def test_flipped_bytes_are_found(name, tmp_path):
    """Every byte of the header's fields and of the first blocks, then every third."""
    good, length = (VECTORS / name).read_bytes(), committed_lengths()[name]
    path = tmp_path / name
    for at in [*range(600), *range(600, 4096, 16), *range(4096, min(length, 5000)), *range(5000, length, 3)]:
        bad = bytearray(good)
        bad[at] ^= 1 << at % 8
        path.write_bytes(bad)
        with pytest.raises(reader.Violation):
            reader.read_segment(path, length)


@pytest.mark.parametrize("name", committed_lengths())
def test_cuts_are_found(name, tmp_path):
    good, length = (VECTORS / name).read_bytes(), committed_lengths()[name]
    path = tmp_path / name
    for at in range(0, length, 7):
        path.write_bytes(good[:at])
        with pytest.raises(reader.Violation):
            reader.read_segment(path, length)
