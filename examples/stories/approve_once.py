"""A transaction is approved once on a web farm: two servers get the same click, and the second one quits."""
import time

from timeline import locks, options, pawl_lock, play


def main():
    given = options(__doc__)

    def server(number):
        def approve(reporter):
            with locks(given) as mine:
                time.sleep(given.unit * number / 10)
                begin = time.monotonic()
                try:
                    hold = mine.take("transaction-4711", wait=pawl_lock.NO_WAIT)
                except pawl_lock.NotTaken:
                    reporter.tell("quits", begin, "is being approved")
                    return
                with hold, reporter.doing("works", "approves"):
                    time.sleep(given.unit * 2)
        return approve

    bars, _ = play(given, {f"server {i + 1}": server(i) for i in range(2)})
    assert sorted(bar["what"] for bar in bars) == ["quits", "works"], bars
    print("one server has approved it, the other one quit at once")


if __name__ == "__main__":
    main()
