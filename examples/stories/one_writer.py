"""Two workers of one type are never in the file at once: each appends its lines under the lock of the type."""
import tempfile
import time

from timeline import locks, options, pawl_lock, play, together


def main():
    given = options(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/t1.txt"

        def worker(reporter):
            with locks(given) as mine:
                for i in range(4):
                    with reporter.doing("waits"):
                        hold = mine.take("t1")
                    with hold, reporter.doing("works", str(hold.token)):
                        for _ in range(10):
                            pawl_lock.file_append(path, hold.token, f"{reporter.row} {hold.token}\n".encode())
                            time.sleep(given.unit / 40)
        bars, took = play(given, {"worker 1": worker, "worker 2": worker})
        tokens = [int(line.split()[-1]) for line in open(path)]
    assert not together(bars), together(bars)
    assert tokens == sorted(tokens) and len(tokens) == 80, tokens
    print(f"two workers, 8 turns, {len(tokens)} lines in the order of their tokens, never both at once: {took:.1f} s")


if __name__ == "__main__":
    main()
