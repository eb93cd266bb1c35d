#include "tools/setup/carry.h"
#include "lockstore/ledger_carry.h"
#include "lockstore/mongo.h"
#include "lockstore/mutex.h"
#include "lockstore/own_collection.h"
#include "tools/person.h"
#include "worker/clock.h"

#include <inttypes.h>
#include <time.h>

enum { RETRY_MS = 100, TRIES_MS = 15000 };

struct course {
  const struct carry *carry;
  int64_t until_ms;
  uint8_t old_id[16], new_id[16];
  struct ledger old, there; /* as last read */
  struct owner owner;
  struct ledger_move move;
  struct error *error;
};

static enum carry_status of_outcome(enum outcome outcome)
{
  return outcome == OUTCOME_REFUSED ? CARRY_UNTRUSTED : CARRY_UNAVAILABLE;
}

/* False: the time is over. */
static bool rest(const struct course *course)
{
  if (clock_boot_ms() >= course->until_ms || course->error->reason == ERROR_RIGHT)
    return false;
  nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000L}, NULL);
  return true;
}

/* "db1:27017,db2:27017/pawl" */
static void name_place(struct lockstore *store, char *text, size_t size)
{
  const struct mongo *mongo = lockstore_mongo(store);
  snprintf(text, size, "%.180s/%s", mongo_server(mongo), mongo_db(mongo));
}

static enum carry_status not_now(struct course *course, const char *text)
{
  error_set(course->error, "%s %s", course->carry->type, text);
  return CARRY_NOT_NOW;
}

/* ---- reading ---- */

static enum outcome read_patiently(struct course *course, struct lockstore *store, struct ledger *ledger)
{
  enum outcome outcome;
  do
    outcome = ledger_read(store, course->carry->type, ledger, course->error);
  while (outcome == OUTCOME_UNKNOWN && rest(course));
  return outcome;
}

static enum outcome id_patiently(struct course *course, struct lockstore *store, uint8_t id[16])
{
  enum outcome outcome;
  do
    outcome = lockstore_database_id(store, id, course->error);
  while ((outcome == OUTCOME_UNKNOWN || outcome == OUTCOME_NO) && rest(course));
  return outcome == OUTCOME_NO ? OUTCOME_UNKNOWN : outcome; /* it was prepared just now */
}

static bool same_id(const uint8_t a[16], const uint8_t b[16])
{
  return memcmp(a, b, 16) == 0;
}

/* Two names of one database: what is made at the new place would replace the mark. */
static enum carry_status places_look(struct course *course)
{
  enum outcome outcome = id_patiently(course, course->carry->from, course->old_id);
  if (outcome == OUTCOME_YES)
    outcome = id_patiently(course, course->carry->to, course->new_id);
  if (outcome != OUTCOME_YES)
    return CARRY_UNAVAILABLE;
  if (!same_id(course->old_id, course->new_id))
    return CARRY_DONE;
  error_set(course->error, "the database to carry to is this one, under another name, or has a copy of its ledger's files");
  return CARRY_WRONG_PLACE;
}

/* The type was marked before: by a run that was cut off, or one that was done. */
static enum carry_status moved_look(struct course *course)
{
  const struct ledger_move *move = &course->old.move;
  course->move = *move;
  if (same_id(move->database, course->new_id))
    return CARRY_DONE;
  error_set(course->error, "%s was moved to %s, by %s: that is another database than the one to carry to", course->carry->type, move->to,
            move->by);
  return CARRY_WRONG_PLACE;
}

/* A missing one is not taken for empty: it may have been renamed. */
static enum carry_status own_look(struct course *course)
{
  struct own_collection collection;
  char text[300];
  enum outcome outcome;
  do
    outcome = own_collection_look(course->carry->from, course->carry->type, &collection, course->error);
  while (outcome == OUTCOME_UNKNOWN && rest(course));
  if (outcome == OUTCOME_UNKNOWN)
    return CARRY_UNAVAILABLE;
  if (outcome != OUTCOME_NO)
    return CARRY_DONE; /* whatever else is the matter with it: it is empty, or it is not */
  snprintf(text, sizeof text,
           "has its own collection, and %s is missing: if it was renamed, give it its name again; else pawl-setup makes "
           "it again, empty",
           queue_name_of(course->carry->type, SOURCE_OWN).text);
  return not_now(course, text);
}

static enum carry_status queue_look(struct course *course)
{
  enum outcome outcome;
  enum carry_status status = course->old.own ? own_look(course) : CARRY_DONE;
  if (status != CARRY_DONE)
    return status;
  do
    outcome = ledger_carry_waits(course->carry->from, course->carry->type, course->old.own, course->error);
  while (outcome == OUTCOME_UNKNOWN && rest(course));
  if (outcome == OUTCOME_YES)
    return not_now(course,
                   "has documents in the queue: resume it until they are written, or set aside what no worker can take; its producers "
                   "must be at the new place by then");
  return outcome == OUTCOME_NO ? CARRY_DONE : of_outcome(outcome);
}

/*
 * After the ledger was read: a process that takes the lock later raises the epoch, and then the mark finds another one. A lease that is
 * over cannot be renewed.
 */
static enum carry_status lock_look(struct course *course)
{
  struct lock_view view;
  char text[600];
  enum outcome outcome;
  do
    outcome = lock_read(course->carry->from, course->carry->type, 0, &view, course->error);
  while (outcome == OUTCOME_UNKNOWN && rest(course));
  if (outcome == OUTCOME_NO || (outcome == OUTCOME_YES && view.left_ms <= 0))
    return CARRY_DONE;
  if (outcome != OUTCOME_YES)
    return of_outcome(outcome);
  snprintf(text, sizeof text, "is locked here by %.250s, pid %" PRId64 " (%s), whose lease ends in %" PRId64 " s unless it is renewed",
           lock_holder_show(&view.holder).text, view.holder.pid, view.holder.program, (view.left_ms + 999) / 1000);
  return not_now(course, text);
}

/* It has no file, and perhaps messages. */
static enum carry_status nothing_look(struct course *course)
{
  char place[256], text[400];
  enum carry_status status = queue_look(course);
  if (status != CARRY_DONE)
    return status;
  name_place(course->carry->from, place, sizeof place);
  snprintf(text, sizeof text,
           "has neither file nor messages in %s: there is nothing to carry. Pause it here, and serve it at the new place", place);
  return not_now(course, text);
}

static enum carry_status old_look(struct course *course)
{
  const struct ledger *old = &course->old;
  enum outcome outcome = read_patiently(course, course->carry->from, &course->old);
  if (outcome == OUTCOME_NO || (outcome == OUTCOME_YES && old->end.file[0] == '\0'))
    return nothing_look(course);
  if (outcome != OUTCOME_YES)
    return of_outcome(outcome);
  if (old->moved)
    return moved_look(course);
  if (!old->paused)
    return not_now(course, "is not paused here: pawl-status --pause does that");
  enum carry_status status = lock_look(course);
  if (status != CARRY_DONE)
    return status;
  return queue_look(course);
}

/* NOT_NOW also where this move is through; *done says so. */
static enum carry_status there_look(struct course *course, bool *done)
{
  enum outcome outcome = read_patiently(course, course->carry->to, &course->there);
  const struct ledger *there = &course->there;
  *done = outcome == OUTCOME_YES && course->old.moved && there->carried && same_id(there->carried_id, course->move.id);
  if (*done)
    return CARRY_DONE;
  if (outcome != OUTCOME_YES && outcome != OUTCOME_NO)
    return of_outcome(outcome);
  const char *obstacle = ledger_carry_obstacle(there, &course->old);
  if (obstacle == NULL)
    return CARRY_DONE;
  error_set(course->error, "%s %s, at the new place (epoch %" PRId64 ", seq %" PRId64 ", file %s)", course->carry->type, obstacle,
            there->epoch, there->end.seq, there->end.file[0] != '\0' ? there->end.file : "none");
  return CARRY_NOT_NOW;
}

/* Both. Where another run was through between the two, once more: then the old place says so. */
static enum carry_status look(struct course *course, bool *done)
{
  struct ledger again;
  struct error ignored;
  enum carry_status status = old_look(course);
  if (status == CARRY_DONE)
    status = there_look(course, done);
  if (status != CARRY_NOT_NOW || course->old.moved ||
      ledger_read(course->carry->from, course->carry->type, &again, &ignored) != OUTCOME_YES || !again.moved)
    return status;
  return look(course, done);
}

/* ---- changing ---- */

static void describe(struct course *course, struct error *text)
{
  char from[256], to[256];
  const struct ledger *old = &course->old;
  name_place(course->carry->from, from, sizeof from);
  name_place(course->carry->to, to, sizeof to);
  error_set(text,
            "%s %s %s, at epoch %" PRId64 " and seq %" PRId64 ", file %s.\nIts ledger goes to %s, where it will be paused. Here no worker "
            "takes it any more.",
            course->carry->type, old->moved ? "was marked as moved at" : "is paused at", from, old->epoch, old->end.seq, old->end.file, to);
}

/* A person may have thought about it for long; another run may be through by then. */
static enum carry_status look_again(struct course *course)
{
  struct ledger now;
  enum carry_status status = lock_look(course);
  if (status == CARRY_DONE)
    status = queue_look(course);
  if (status != CARRY_NOT_NOW)
    return status;
  struct error why = *course->error;
  if (read_patiently(course, course->carry->from, &now) == OUTCOME_YES && now.moved) {
    course->old = now;
    return CARRY_DONE;
  }
  *course->error = why;
  return status;
}

/* The old place first: between the two nobody serves the type. */
static enum carry_status mark(struct course *course)
{
  const struct carry *carry = course->carry;
  enum carry_status status = course->old.moved ? CARRY_DONE : look_again(course);
  if (status != CARRY_DONE)
    return status;
  while (!course->old.moved) {
    enum outcome outcome = ledger_carry_mark(carry->from, carry->type, &course->old, &course->owner, &course->move, course->error);
    if (outcome == OUTCOME_REFUSED || (outcome == OUTCOME_UNKNOWN && !rest(course)))
      return of_outcome(outcome);
    int64_t epoch = course->old.epoch;
    outcome = read_patiently(course, carry->from, &course->old);
    if (outcome == OUTCOME_UNKNOWN || outcome == OUTCOME_REFUSED)
      return of_outcome(outcome);
    if (!course->old.moved && course->old.epoch != epoch)
      return not_now(course, "was taken up meanwhile: nothing was changed");
  }
  return moved_look(course); /* perhaps by another run */
}

static enum carry_status make(struct course *course)
{
  const struct carry *carry = course->carry;
  struct ledger_pause pause = {.at_ms = 0};
  bool done = false;
  memcpy(pause.id, course->move.id, sizeof pause.id);
  snprintf(pause.by, sizeof pause.by, "%s", course->move.by);
  snprintf(pause.reason, sizeof pause.reason, "it was moved here");
  enum carry_status status = there_look(course, &done);
  while (status == CARRY_DONE && !done) {
    enum outcome outcome = ledger_carry_make(carry->to, carry->type, &course->there, &course->old, &course->owner, &pause, course->error);
    if (outcome == OUTCOME_NO && !rest(course))
      return not_now(course, "is used at the new place, again and again: run it again");
    if (outcome == OUTCOME_REFUSED || (outcome == OUTCOME_UNKNOWN && !rest(course)))
      return of_outcome(outcome);
    status = there_look(course, &done);
  }
  return status;
}

static void course_begin(struct course *course, const struct carry *carry, struct error *error)
{
  int64_t least_ms = clock_boot_ms() + TRIES_MS;
  *course = (struct course){.carry = carry, .until_ms = carry->until_ms > least_ms ? carry->until_ms : least_ms, .error = error};
  error->text[0] = '\0';
  error->reason = ERROR_OTHER;
  lockstore_random(carry->from, &course->owner, sizeof course->owner);
  lockstore_random(carry->from, course->move.id, sizeof course->move.id);
  person_name(course->move.by, sizeof course->move.by);
  name_place(carry->to, course->move.to, sizeof course->move.to);
}

enum carry_status carry(const struct carry *carry, struct error *text, struct error *error)
{
  struct course course;
  bool done = false;
  course_begin(&course, carry, error);
  enum carry_status status = places_look(&course);
  memcpy(course.move.database, course.new_id, sizeof course.new_id);
  if (status == CARRY_DONE)
    status = look(&course, &done);
  if (status != CARRY_DONE)
    return status;
  describe(&course, text);
  if (!done && !carry->confirm(carry->context, text->text))
    return CARRY_DECLINED;
  if (course.until_ms < clock_boot_ms() + TRIES_MS) /* a person may have thought about it for long */
    course.until_ms = clock_boot_ms() + TRIES_MS;
  if (!done)
    status = mark(&course);
  if (status == CARRY_DONE && !done)
    status = make(&course);
  const struct ledger *there = &course.there;
  if (status == CARRY_DONE && there->moved)
    error_set(text, "%s: moved to %s, and from there to %s", carry->type, course.move.to, there->move.to);
  else if (status == CARRY_DONE)
    error_set(text, "%s: moved to %s, at epoch %" PRId64 " and seq %" PRId64 "%s", carry->type, course.move.to, there->epoch,
              there->end.seq, there->paused ? ". It is paused there: pawl-status --resume lets its workers go on" : "");
  return status;
}
