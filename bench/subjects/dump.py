"""Reading the file: pawl-dump and its --verify, beside cat and a plain BSON decoder."""
import drains
from figures import bars, raw, rows, table, turns
from harness import interleave, program

COUNTS = {256: (20_000, 3_000_000), 4096: (2_000, 225_000)}


def run(bench):
    found = {size: of_size(bench, size) for size in COUNTS}
    return {"tables": [table(f"Reading a file of {size}-byte messages", ["", "GB/s", "CPU, s a GB", "memory, peak, MB"],
                             rows(results, "gb_s", "cpu_s", "peak_mb"),
                             ["The file is in the page cache: each reading comes right after one by cat that is not counted. Output goes to /dev/null; GB is of the file, whatever is printed. decode: what "
                              "bsondump does, on libbson, without any check."]) for size, results in found.items()],
            "targets": {"verify": turns(found[256]["pawl-dump --verify"], "gb_s")},
            "bars": [bars("Reading a file, messages of 256 bytes", "GB/s", found[256], "gb_s", place)],
            "raw": {str(size): raw(results) for size, results in found.items()}}


def of_size(bench, size):
    count = bench.size(*COUNTS[size])
    with bench.queue() as queue:
        queue.fill(count, bytes=size)
        drains.pawl(queue, count)
        path = queue.dir / "t1.bin"
        read = lambda *command: lambda: once(bench, path, *command)
        dump = [program("pawl-dump"), "-q"]
        return interleave(bench, {
            "cat": read("cat", path),
            "pawl-dump --verify": read(*dump, "--verify", path),
            "pawl-dump --verify --deep": read(*dump, "--verify", "--deep", path),
            "pawl-dump --count": read(*dump, "--count", path),
            "pawl-dump --format bson": read(*dump, "--format", "bson", path),
            "pawl-dump (relaxed JSON)": read(*dump, path),
            "decode (relaxed JSON)": read(program("decode"), path),
        })


def place(name):
    """The group in the picture, and the label there."""
    return ("to JSON" if "JSON" in name else "checked or copied", name)


def once(bench, path, *command):
    bench.run("cat", path, stdout="/dev/null")
    run, size = bench.run(*command, stdout="/dev/null"), path.stat().st_size
    return {"gb_s": size / 1e9 / run["seconds"], "cpu_s": run["cpu"] / (size / 1e9), "peak_mb": run["peak_mb"]}
