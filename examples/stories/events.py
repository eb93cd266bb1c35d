"""A collection of events, whose documents are locked in place by several consumers. One of them dies at its work: another one takes that
event over when its lease is over. Each event is done once."""
import os
import time

import bson
import pymongo

from timeline import locks, options, pawl_lock, play

LEASE = 2


def main():
    given = options(__doc__)
    events = pymongo.MongoClient(given.uri)[given.db].pawl_story_events
    events.drop()
    events.insert_many([{"_id": i, "at": i} for i in range(9)])
    query, order = bson.encode({"done": {"$ne": True}}), bson.encode({"at": 1})

    def consumer(dies):
        def consume(reporter):
            with locks(given, lease=LEASE) as mine:
                while True:
                    begin = time.monotonic()
                    try:
                        hold = mine.take_document("pawl_story_events", query, order, wait=2 * LEASE + given.unit)
                    except pawl_lock.NotTaken:
                        return
                    reporter.tell("waits", begin)
                    number, begin = bson.decode(hold.document)["_id"], time.monotonic()
                    time.sleep(given.unit / 2)
                    if dies and number >= 3:
                        reporter.tell("dies", begin, str(number))
                        os._exit(1)
                    hold.update(bson.encode({"$set": {"done": True}, "$inc": {"times": 1}}))
                    reporter.tell("works", begin, str(number))
                    hold.release()
        return consume

    actors = {f"consumer {i + 1}": consumer(i == 0) for i in range(3)}
    bars, took = play(given, actors, die=["consumer 1"])
    assert events.count_documents({"done": True, "times": 1}) == 9, list(events.find())
    assert sum(bar["what"] == "dies" for bar in bars) == 1 and sum(bar["what"] == "works" for bar in bars) == 9
    print(f"nine events, three consumers, one of which died: each event done once, {took:.1f} s")


if __name__ == "__main__":
    main()
