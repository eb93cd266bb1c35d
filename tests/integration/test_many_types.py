"""Many listed types in one worker: their polls are one request, and none of them waits for another."""
import re
import time

import bson
import pytest

from disks import FaultyDisk
from harness import CALM, stays, wait_until

NAMES = [f"t{n}" for n in range(1, 41)]
FEW = 16  # from so many on polls are made together


def counts(field):
    """Requests by their commands, since the server was started."""
    commands = field.server.client.admin.command("serverStatus")["metrics"]["commands"]
    return {name: commands[name]["total"] for name in ("find", "aggregate")}


def asked(field, seconds):
    before = counts(field)
    time.sleep(seconds)
    return {name: total - before[name] for name, total in counts(field).items()}


def are_polled_together(field):
    """Each alone would be eighty finds in these two seconds."""
    found = asked(field, 2)
    return found["find"] <= 16 and found["aggregate"] >= 1


def test_idle_types_are_polled_together(field):
    worker = field.worker(*CALM, types=[",".join(NAMES)])
    field.insert("all", [{"type": name, "n": n} for n, name in enumerate(NAMES)])
    field.wait_settled(*NAMES)
    wait_until(lambda: are_polled_together(field), "idle types that are polled together")
    field.finish(worker)
    field.compare(*NAMES)


def test_polls_that_take_long_are_seldom(field):
    """After a large drain each goes over what was deleted: the pause is twenty times what it took."""
    worker = field.worker(*CALM, types=[",".join(NAMES)])
    wait_until(lambda: are_polled_together(field), "idle types that are polled together")
    with field.failing(["aggregate"], collection="messages", blockConnection=True, blockTimeMS=300) as slow:
        slow.wait()
        time.sleep(9)
    assert 1 <= slow.count <= 4, f"{slow.count} polls; {worker}"
    assert worker.stop()[0] == 0, str(worker)


def test_messages_without_a_wakeup_are_found_in_any_of_them(field):
    worker = field.worker(*CALM, "--poll", "100ms", types=[",".join(NAMES)])
    for name in (NAMES[0], NAMES[20], NAMES[-1]):
        field.fill(10, name)
        field.wait_empty(name)
    assert worker.stop()[0] == 0, str(worker)
    field.compare(NAMES[0], NAMES[20], NAMES[-1])


def test_a_document_that_cannot_be_taken_hides_nothing(field):
    """It is found each time, and its type is then polled alone: it is named once, and what comes to its type is taken."""
    assert field.run("pawl-setup").returncode == 0
    untaken = {"_id": bson.Regex("^a$"), "type": "t3"}
    field.server.client.admin.command({"applyOps": [{"op": "i", "ns": f"{field.name}.messages", "o": untaken}]})
    worker = field.worker(*CALM, "--poll", "50ms", types=[",".join(NAMES)])
    worker.wait_log("cannot take the document")
    for name in ("t3", "t4"):
        field.fill(10, name)
    wait_until(lambda: field.queued("t3") == 1 and field.queued("t4") == 0, field.logs)
    stays(lambda: worker.log().count(" document: ") == 1, 1, "one line for one document")
    assert worker.stop()[0] == 0, str(worker)
    field.compare("t4")


def test_types_with_own_collections_are_polled_together(field):
    own = NAMES[::2]
    assert field.run("pawl-setup", "--type", ",".join(own), "--own-collection").returncode == 0
    worker = field.worker(*CALM, types=[",".join(NAMES)])
    for name in NAMES:
        field.fill(5, name, own=name in own)
    field.wait_settled(*NAMES)
    wait_until(lambda: are_polled_together(field), "idle types that are polled together")
    field.fill(5, "t1", own=True)
    field.fill(5, "t2")
    field.wait_settled("t1", "t2")
    field.finish(worker)
    field.compare(*NAMES)


def test_a_switch_is_seen_by_an_idle_type(field):
    """The type gets its own collection while its polls go together with those of others."""
    worker = field.worker(*CALM, types=[",".join(NAMES)])
    field.fill(5, "t5")
    field.wait_settled("t5")
    assert field.run("pawl-setup", "--type", "t5", "--own-collection").returncode == 0
    field.fill(5, "t5", own=True)
    field.wait_settled("t5")
    assert worker.stop()[0] == 0, str(worker)
    field.compare("t5")


def test_an_index_with_arrays_polls_each_alone(field):
    """One document whose type was an array, and the request for all would go over all documents."""
    assert field.run("pawl-setup").returncode == 0
    field.messages.insert_one({"type": ["t1", "other"]})
    field.messages.delete_many({"type": "other"})
    worker = field.worker(*CALM, types=[",".join(NAMES)])
    for name in NAMES[:20]:
        field.fill(5, name)
    field.wait_settled(*NAMES[:20])
    wait_until(lambda: asked(field, 2)["find"] >= len(NAMES), "idle types that are polled alone")
    assert asked(field, 2)["aggregate"] == 0
    assert worker.stop()[0] == 0, str(worker)
    field.compare(*NAMES[:20])


@pytest.mark.parametrize("count", [FEW - 1, FEW, 1100])
def test_any_number_of_types(field, count):
    """Around the smallest number that goes together, and above the greatest."""
    names = [f"t{n}" for n in range(count)]
    busy = names[:3] + names[-3:]
    for name in busy:
        field.fill(3, name)
    worker = field.drain(*CALM, types=[",".join(names)])
    assert len(re.findall(r" takeover: ", worker.log())) == len(busy)
    field.compare(*busy)


@pytest.mark.slow
def test_types_that_hang_keep_no_other_from_beginning(field, faulty_disk, tmp_path):
    """More of them than are at work at once."""
    disk = FaultyDisk(faulty_disk, tmp_path, field.dir)
    hanging = [f"a{n:02}" for n in range(50)]
    disk.rule("pwrite a*.bin 0 hang")
    last = [f"z{n}" for n in range(20)]
    field.insert("all", [{"type": name, "n": n} for n, name in enumerate(hanging + last)])
    worker = field.worker(*CALM, types=[",".join(hanging + last)], env=disk.env)
    field.wait_empty(*last)
    assert field.messages.count_documents({}) == len(hanging)
    disk.rule()
    field.wait_empty(*hanging)
    assert worker.stop()[0] == 0, str(worker)
    field.compare(*hanging, *last)


def test_types_that_have_much_keep_no_other_from_beginning(field):
    """Many more of them than are at work at once, and all are found by the first poll. Nothing is deleted, so that each soon waits with its
    lock held and no action under way: it does not end, and on a machine that is very busy it does not count as one that hangs."""
    names = [f"t{n:03}" for n in range(150)]
    field.insert("all", [{"type": name, "n": n} for n in range(20) for name in names])
    with field.failing(["delete"], collection="messages", errorCode=91):
        worker = field.worker("--batch-messages", 1, *CALM, types=[",".join(names)])
        wait_until(lambda: field.ledgers.count_documents({"_id": {"$in": names}, "seq": {"$gt": 0}}) == len(names), lambda: str(worker))
        assert field.messages.count_documents({}) == 20 * len(names)
    field.wait_empty(*names)
    assert worker.stop()[0] == 0, str(worker)
    field.compare(*names)
