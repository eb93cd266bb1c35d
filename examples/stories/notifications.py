"""Twelve notifications for three payments: with one lock for all they take twelve pieces of time, with a lock for each payment four.
The picture of the first goes beside that of the second: one-lock-FILE."""
import argparse
import os
import time

from timeline import locks, options, play, together


def main():
    given = options(__doc__)
    took = {}

    def handler(payment, lock):
        def handle(reporter):
            with locks(given) as mine:
                with reporter.doing("waits"):
                    hold = mine.take(lock)
                with hold, reporter.doing("works", payment):
                    time.sleep(given.unit)
        return handle

    for way in ("one lock", "a lock for each payment"):
        actors = {f"notification {i + 1}": handler(f"payment-{i % 3}", "payments" if way == "one lock" else f"payment-{i % 3}")
                  for i in range(12)}
        folder, name = os.path.split(given.svg or "")
        picture = given.svg and os.path.join(folder, name if way != "one lock" else f"one-lock-{name}")
        bars, took[way] = play(argparse.Namespace(**{**vars(given), "svg": picture}), actors)
        if way == "one lock":
            assert not together(bars)
        for payment in range(3):
            assert not together([bar for bar in bars if bar["text"] == f"payment-{payment}"])
    assert took["a lock for each payment"] < took["one lock"] / 1.5, took
    print("; ".join(f"{way}: {seconds:.1f} s" for way, seconds in took.items()))


if __name__ == "__main__":
    main()
