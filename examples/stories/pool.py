"""A pool of three connections for eight clients: whoever comes takes any that is free, in the order of coming. Two that need two
locks each take them together, so no order in which they ask for them can block both."""
import random
import time

from timeline import locks, options, play


def main():
    given = options(__doc__)

    def client(reporter):
        with locks(given) as mine:
            for _ in range(2):
                with reporter.doing("waits"):
                    hold = mine.take("db", slots=3)
                with hold, reporter.doing("works", str(hold.slot)):
                    time.sleep(given.unit * random.uniform(0.3, 0.6))

    def crossing(names):
        def take_both(reporter):
            with locks(given) as mine:
                for _ in range(3):
                    with reporter.doing("waits"):
                        holds = mine.take_all(random.sample(names, 2))
                    with reporter.doing("works", "both"):
                        time.sleep(given.unit / 5)
                    for hold in holds:
                        hold.release()
        return take_both

    actors = {f"client {i + 1}": client for i in range(8)} | {f"crossing {i + 1}": crossing(["left", "right"]) for i in range(2)}
    bars, took = play(given, actors)
    slots = [bar for bar in bars if bar["row"].startswith("client") and bar["what"] == "works"]
    moments = sorted([(bar["from"], 1) for bar in slots] + [(bar["to"], -1) for bar in slots], key=lambda moment: (moment[0], moment[1]))
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    assert most <= 3 and len(slots) == 16, (most, len(slots))
    print(f"eight clients, never more than {most} of 3 connections in use, no deadlock: {took:.1f} s")


if __name__ == "__main__":
    main()
