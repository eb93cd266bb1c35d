/*
 * A model of the mutex's wait queue for the model checker Spin. It tries every order of the steps of three processes, workers and
 * pawl-locks, with crashes, freezes, late requests and fail-overs, up to small bounds, and checks after each step that matters
 * (the names are those of the assertions):
 *
 *   one, robbed    there is one lock document at most, and none is stolen before its time is over;
 *   freed          no late release deletes the document of a later acquisition;
 *   token          the ledger's epoch only rises, and no two users get the same;
 *   outrun         no fence matches by an epoch that became current after its process had lost the document;
 *   evicted        no holder is fenced off while its document is there and its time is not over;
 *   both           no user begins while a pawl-lock's command runs whose lease is not over;
 *   twice          an owner is in the queue once at most;
 *   overtaken      no process tries to take the lock while an entry is ahead of it, as it saw the queue, that is alive and was not
 *                  called long ago;
 *   disordered     nor while one of its own kind is there that was in the queue before it joined, and neither is called;
 *   turns          (with -DFAIR) after a release of one kind, one of the other kind that was queued then gets it next, of those
 *                  that have read the queue since;
 *   stuck          when nothing can happen any more, no process waits.
 *
 * tests/model/run queue runs it. By hand: spin -a queue.pml && gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000 -w24
 *
 * What is modelled
 *
 *   lock           One document: the owner, and whether its time is over by the server's clock. That of a process that is gone ends
 *                  some time; that of a live one too, with -DFREEZES.
 *   queue          A list of entries with the time of the call (not, recently, long ago: whether G is over since), and whether the
 *                  entry's own time is over. `last` is the last holder, with its kind. It has room for as many as there are
 *                  processes. With -DFOREVER the entries of the dead do not end: calls alone must get the others on.
 *   turns          The entry that was called recently is first; then the first of the kind that the last holder was not; then the
 *                  list's order. The first of these that was not called long ago is called next.
 *   look           One step: it reads lock and queue. What follows from it is a later step.
 *                  A look that changes nothing takes no step. So where a process could look in vain for ever, nothing happens.
 *   join           At any time while a process waits: what the look before it saw may be old.
 *   call           By a process that sees the lock free, or its time over, and by a release. It names `last` as it was seen. A
 *                  look's call does nothing to an entry that is called already; a release's call begins anew.
 *   take           The epoch (read, or of a wake-up), the steal, the insert; then one update of the queue that removes the taker and
 *                  those whose time is over, and sets `last`; then the fence, and pawl-lock's second look. Another process
 *                  may overtake between any two.
 *   release        The delete, a look at the queue, with the wake-up, the call. It does not check whether the delete found anything.
 *   leave          The entry is removed. Then a look, and a call if the lock is free (-DLEAVES).
 *   wake-up        Only the epoch in it. There is one for each process, of this acquisition; it may be lost, comes at any time, and
 *                  any number of times. It makes a process look, which the timer does as well.
 *   pause          Between any two steps, of any length.
 *   crash          At any step (-DCRASHES). The process begins another acquisition, and knows nothing of the last.
 *   late requests  A request may be done at once, later, both, or later without an answer (-DLATES).
 *   roll-back      With -DROLLS a fail-over takes lock and queue back to where a majority had them last. A steal, a fence, and the
 *                  confirmed release are what makes all before them a majority's.
 *
 * What is not: time (so no leases that are renewed, and no deadline); more than one late request at a time; two copies of a
 * fence, and fences without an answer (append.pml has these); answers of a primary that was replaced and does not know it; a
 * fail-over that takes back only a part of what has no majority; commits and files; other wake-ups; more than one name. That
 * no process waits for ever is checked as "it does not come to a stop"; that the steps do not go round is not checked.
 *
 * -DFAIR is without faults and without time: G is never over. Then the turns are strict. With faults a turn may be lost.
 *
 * Planted bugs, given to spin as -D, one at a time; each must be found, by an assertion that is its own (tests/model/run names it):
 *
 *   EPOCHLATE   the epoch is read after the insert
 *   WAKELATE    the epoch of a wake-up is used although it came after the insert; the wake-up names this acquisition
 *   WAKEANY     the same, of a wake-up that names an earlier one
 *   NOCOMPARE   a fence does not compare the epoch
 *   NOSECOND    pawl-lock does not read the lock again after its fence
 *   SAMEOWNER   a process has the same owner in each acquisition
 *   STEALANY    a steal does not name the owner that it saw, and does not compare the time
 *   NOINDEX     an insert replaces a document that is there
 *   TWICE       a join does not check whether the owner is in the queue
 *   FRONT       a join is at the front
 *   BARGE       a process that sees the lock free takes it
 *   SKIPRECENT  an entry that is called is passed over at once
 *   TURNSLOCK   after a worker the first of any kind is next
 *   TURNSWORKER and after a pawl-lock
 *   LASTLATE    `last` is written by the release, after its delete
 *   STALEMARK   a call does not name `last`: it may be of a look before the last take
 *   NOMARK      only a release calls, not a process that sees the lock free
 *   TRUSTED     an entry that was called keeps the others off for ever
 *   MARKFREE    a lock whose time is over is not free to a process that calls
 *   MARKHEAD    after an entry that was called long ago none is called
 *
 * WAKEEARLY is no bug: a wake-up that names another acquisition, if its epoch is used before the insert only.
 */
#ifndef P
#define P 3 /* processes, at most 4 */
#endif
#ifndef N
#define N 2 /* acquisitions a process */
#endif
#ifndef FEW
#define FEW 0 /* bit p - 1: process p has one only */
#endif
#ifndef LOCKS
#define LOCKS 4 /* bit p - 1: process p is pawl-lock; the others are workers */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef FREEZES
#define FREEZES 0 /* what runs out although its owner is alive: locks and entries */
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#ifndef LATES
#define LATES 0 /* requests of which a copy, or the only one, arrives later */
#endif
#ifndef ROLLS
#define ROLLS 0 /* fail-overs that take back what has no majority */
#endif
#define Q P /* room in the queue */

#ifdef SAMEOWNER
#define OWNER(p, n) (p)
#else
#define OWNER(p, n) (((n) - 1) * P + (p))
#endif
#define PROCESS(o) (((o) - 1) % P + 1)
#define WORKER 1
#define LOCK 2
#define KIND(p) (((LOCKS) >> ((p) - 1)) & 1 -> LOCK : WORKER)
#define OTHER(kind) (3 - (kind))
#define BIT(o) (1 << (o))

/* called */
#define NOT 0
#define RECENTLY 1
#define LONG_AGO 2

/* ---- what all processes share ---- */

byte lock;                             /* the owner; 0: there is no document */
bool expired;
byte q_owner[Q];                       /* the queue; 0: the list is over */
byte q_called[Q];
bool q_gone[Q];                        /* the entry's time is over */
byte last;                             /* the last holder, by its owner; 0: none */
byte epoch, epoch_owner;               /* the ledger */
#if ROLLS > 0
byte m_lock, m_owner[Q], m_called[Q], m_last; /* what a majority has */
bool m_expired, m_gone[Q];
byte rolls;
#endif
byte w_owner[P + 1], w_epoch[P + 1];   /* the wake-up with an epoch that a process may find: any number of times */

/* What follows from the queue: order(). */
byte next;                             /* the first in turn that may not be passed over */
byte head;                             /* the first in turn */
byte to_call;                          /* the same, if it is not called */
byte may;                              /* bit i: no entry keeps entry i off */

byte under_way[P + 1];                    /* the acquisition that is under way; 0: none */
byte crashes, freezes, leaves;
#if LATES > 0
byte late, late_owner, late_saw, lates;
#endif

/* ---- what must hold ---- */

/* Never set: each gives its name to what spin prints of an assertion, for tests/model/run. */
hidden byte one, token, outrun, evicted, both, freed, robbed, twice, overtaken, disordered, turns, stuck;

bool holds[P + 1];                     /* from its insert until it begins to release */
bool uses[P + 1];                      /* the user has it */
bool lapsed[P + 1];                    /* its lease was over, while it had the document */
byte gone_epoch[P + 1];                /* the ledger's epoch when it lost the document */
short ahead[P + 1];                    /* the owners that were in the queue when it joined, and still are */
byte given;                            /* the last token */
#ifdef FAIR
byte owed;                             /* the kind whose turn it is since the release; 0: none */
bool fresh[P + 1];                     /* has read the queue since the release */
#endif

#define LIVE(o) ((o) != 0 && under_way[PROCESS(o)] == (o))

hidden byte i_, j_, head_, next_, p_, o_;

#define ALIVE(i) (q_owner[i] != 0 && !q_gone[i])
#define AT(i, o) (q_owner[i] == (o))
#if Q == 3
#define IN(o) (AT(0, o) || AT(1, o) || AT(2, o))
#define IN_ALIVE(o) ((AT(0, o) && !q_gone[0]) || (AT(1, o) && !q_gone[1]) || (AT(2, o) && !q_gone[2]))
#define IN_FREE(o) ((AT(0, o) && (may & 1)) || (AT(1, o) && (may & 2)) || (AT(2, o) && (may & 4)))
#elif Q == 4
#define IN(o) (AT(0, o) || AT(1, o) || AT(2, o) || AT(3, o))
#define IN_ALIVE(o) \
  ((AT(0, o) && !q_gone[0]) || (AT(1, o) && !q_gone[1]) || (AT(2, o) && !q_gone[2]) || (AT(3, o) && !q_gone[3]))
#define IN_FREE(o) ((AT(0, o) && (may & 1)) || (AT(1, o) && (may & 2)) || (AT(2, o) && (may & 4)) || (AT(3, o) && (may & 8)))
#else
#error "three or four processes"
#endif
#define FREE (lock == 0 || expired)
#define ROOM (q_owner[Q - 1] == 0)

/* The order of turns after a holder of this kind: head_ and next_ (Q: none). */
inline order_after(kind)
{
  head_ = Q; next_ = Q; i_ = 0;
  do
  :: i_ < Q && head_ == Q -> if :: ALIVE(i_) && q_called[i_] == RECENTLY -> head_ = i_ :: else fi; i_++
  :: else -> break
  od;
  i_ = 0;
  do
  :: i_ < Q && head_ == Q ->
     if
#ifndef TURNSLOCK
     :: kind == WORKER && ALIVE(i_) && KIND(PROCESS(q_owner[i_])) == LOCK -> head_ = i_
#endif
#ifndef TURNSWORKER
     :: kind == LOCK && ALIVE(i_) && KIND(PROCESS(q_owner[i_])) == WORKER -> head_ = i_
#endif
     :: else
     fi;
     i_++
  :: else -> break
  od;
  i_ = 0;
  do :: i_ < Q && head_ == Q -> if :: ALIVE(i_) -> head_ = i_ :: else fi; i_++ :: else -> break od;
  if
  :: head_ < Q && q_called[head_] != LONG_AGO -> next_ = head_
  :: else ->
     i_ = 0;
     do
     :: i_ < Q && next_ == Q -> if :: ALIVE(i_) && q_called[i_] != LONG_AGO -> next_ = i_ :: else fi; i_++
     :: else -> break
     od
  fi;
  i_ = 0
}

/* After each change of the queue. */
inline order()
{
  order_after((last == 0 -> 0 : KIND(PROCESS(last))));
  next = 0; to_call = 0; may = 0; head = (head_ < Q -> q_owner[head_] : 0);
  if
  :: next_ < Q ->
     next = q_owner[next_];
#ifdef MARKHEAD
     if :: q_called[next_] == NOT && next_ == head_ -> to_call = next :: else fi;
#else
     if :: q_called[next_] == NOT -> to_call = next :: else fi;
#endif
     do :: i_ < Q -> if :: i_ == next_ || i_ == head_ || (next_ != head_ && i_ < next_) -> may = may | (1 << i_) :: else fi; i_++
        :: else -> break od
  :: else -> may = 15
  fi;
  i_ = 0;
  do
  :: i_ < Q ->
     j_ = i_ + 1;
     do :: j_ < Q -> assert(twice || q_owner[i_] == 0 || q_owner[i_] != q_owner[j_]); j_++ :: else -> break od;
     i_++
  :: else -> break
  od;
  i_ = 0; j_ = 0; head_ = 0; next_ = 0
}

/* ---- requests: each is one step, and may come again later ---- */

#define JOIN 1
#define REMOVE 2
#define STEAL 3
#define DELETE 4
#define CALL 5
#define INSERT 6

inline lost_document()                                             /* the document is about to go */
{
  if :: LIVE(lock) -> gone_epoch[PROCESS(lock)] = epoch :: else fi
}

inline no_document()
{
  lost_document(); lock = 0; expired = false
}

inline do_insert(o)
{
  if
#ifdef NOINDEX
  :: true -> assert(one || lock == 0 || lock == (o)); lock = (o); expired = false
#else
  :: lock == 0 -> lock = (o); expired = false
  :: else
#endif
  fi
}

inline do_delete(o)
{
  if :: lock == (o) -> no_document() :: else fi
}

inline do_steal(o)
{
  if
#ifdef STEALANY
  :: lock != 0 -> assert(robbed || expired); no_document(); majority()
#else
  :: lock == (o) && expired -> no_document(); majority()
#endif
  :: else
  fi
}

inline do_join(o)
{
  i_ = 0;
  do
#ifdef TWICE
  :: i_ < Q && q_owner[i_] != 0 -> i_++
#else
  :: i_ < Q && q_owner[i_] != 0 && q_owner[i_] != (o) -> i_++
#endif
  :: else -> break
  od;
  if
  :: i_ < Q && q_owner[i_] == 0 ->
     j_ = 0;
     if :: LIVE(o) -> ahead[PROCESS(o)] = 0 :: else fi;
     do
     :: j_ < i_ -> if :: LIVE(o) -> ahead[PROCESS(o)] = ahead[PROCESS(o)] | BIT(q_owner[j_]) :: else fi; j_++
     :: else -> break
     od;
#ifdef FRONT
     do :: i_ > 0 -> q_owner[i_] = q_owner[i_ - 1]; q_called[i_] = q_called[i_ - 1]; q_gone[i_] = q_gone[i_ - 1]; i_--
        :: else -> break od;
#endif
     q_owner[i_] = (o); q_called[i_] = NOT; q_gone[i_] = false; j_ = 0
  :: i_ < Q && q_owner[i_] != 0 -> q_gone[i_] = false
  :: else
  fi;
  i_ = 0; order()
}

/* Pulls the entry. By a take: also those whose time is over, and records the new holder. */
inline do_remove(o, by_take)
{
#ifndef LASTLATE
  if :: by_take -> last = o :: else fi;
#endif
  i_ = 0; j_ = 0; o_ = o;
  do
  :: i_ < Q ->
     if
     :: q_owner[i_] != 0 && (q_owner[i_] == o_ || ((by_take) && q_gone[i_])) ->
        p_ = 1;
        do :: p_ <= P -> ahead[p_] = ahead[p_] & (~BIT(q_owner[i_])); p_++ :: else -> break od
     :: else ->
        q_owner[j_] = q_owner[i_]; q_called[j_] = q_called[i_]; q_gone[j_] = q_gone[i_]; j_++
     fi;
     i_++
  :: else -> break
  od;
  do :: j_ < Q -> q_owner[j_] = 0; q_called[j_] = NOT; q_gone[j_] = false; j_++ :: else -> break od;
  i_ = 0; j_ = 0; p_ = 0; o_ = 0; order()
}

/* By a look: only an entry that is not called. By a release: anew. No process has taken the lock since that was seen. */
#ifdef STALEMARK
#define SAME_LAST(as_seen) true
#else
#define SAME_LAST(as_seen) (last == (as_seen))
#endif
inline do_call(o, as_seen, anew)
{
#ifdef LASTLATE
  if :: anew -> last = as_seen :: else fi;
#endif
  i_ = 0;
  do
  :: i_ < Q ->
     if :: q_owner[i_] == (o) && SAME_LAST(as_seen) && (q_called[i_] == NOT || (anew)) -> q_called[i_] = RECENTLY :: else fi;
     i_++
  :: else -> break
  od;
  i_ = 0; order()
}

inline majority()                                                  /* and all that was written before has it too */
{
#if ROLLS > 0
  m_lock = lock; m_expired = expired; m_last = last; i_ = 0;
  do :: i_ < Q -> m_owner[i_] = q_owner[i_]; m_called[i_] = q_called[i_]; m_gone[i_] = q_gone[i_]; i_++ :: else -> break od;
  i_ = 0
#else
  skip
#endif
}

/* ---- a process ---- */

#if LATES > 0
#define MAY_BE_LATE (lates < LATES && late == 0)
#define LINGER(what, o, saw) lates++; late = what; late_owner = (o); late_saw = saw
#else
#define MAY_BE_LATE false
#define LINGER(what, o, saw) skip
#endif

#define CRASH :: d_step { crashes < CRASHES -> crashes++ } goto over

#ifdef BARGE
#define MY_TURN true
#elif defined(SKIPRECENT)
#define MY_TURN (IN_FREE(mine) || next == 0 || (next != 0 && to_call == 0))
#else
#define MY_TURN (IN_FREE(mine) || (!IN(mine) && next == 0))
#endif

#ifdef MARKFREE
#define SEES_FREE (lock == 0)
#else
#define SEES_FREE FREE
#endif
#ifdef WAKEEARLY
#define WOKEN (w_owner[me] != 0)
#else
#define WOKEN (w_owner[me] == mine)
#endif
#define MAY_JOIN (!IN_ALIVE(mine) && (ROOM || IN(mine)))
#ifdef NOINDEX
#define CAN_INSERT true
#else
#define CAN_INSERT (lock == 0 || lock == mine)
#endif
#ifdef NOCOMPARE
#define CAN_FENCE true
#else
#define CAN_FENCE (e == epoch)
#endif
#ifdef NOSECOND
#define HAS_NO_SECOND_LOOK true
#else
#define HAS_NO_SECOND_LOOK (KIND(me) == WORKER)
#endif

/* I am about to take it: no entry is ahead, as this look saw the queue. */
inline check_look()
{
  assert(overtaken || next == 0 || IN_FREE(mine));
  i_ = 0; p_ = 0;
  do :: i_ < Q -> if :: q_owner[i_] == mine && q_called[i_] != NOT -> p_ = 1 :: else fi; i_++ :: else -> break od;
  i_ = 0;
  do
  :: i_ < Q ->
     /* of my kind, there before me, not called; and neither am I */
     assert(disordered || p_ || !ALIVE(i_) || q_called[i_] != NOT || KIND(PROCESS(q_owner[i_])) != KIND(me) ||
            !(ahead[me] & BIT(q_owner[i_])));
     i_++
  :: else -> break
  od;
  i_ = 0; p_ = 0
#ifdef FAIR
  ; fresh[me] = true
#endif
}

inline begin_to_hold()
{
  holds[me] = true;
#ifdef FAIR
  assert(turns || owed == 0 || owed == KIND(me) || !fresh[me]); owed = 0
#endif
}

inline fence()
{
  assert(token || e + 1 > given);
#ifndef EPOCHLATE
  assert(outrun || lock == mine || gone_epoch[me] == epoch);
#endif
  assert(evicted || !(lock == epoch_owner && LIVE(lock) && holds[PROCESS(lock)] && !expired));
  epoch = e + 1; e = epoch; given = epoch; epoch_owner = mine; fenced = true; majority()
}

inline begin_to_use()
{
  p_ = 1;
  do :: p_ <= P -> assert(both || p_ == me || !uses[p_] || KIND(p_) == WORKER || lapsed[p_]); p_++ :: else -> break od;
  p_ = 0; uses[me] = true
}

inline end_use()
{
  uses[me] = false; holds[me] = false;
#ifdef FAIR
  if
  :: lock == mine ->                                               /* whose turn is it? An entry that is called already goes first. */
     i_ = 0; owed = 0; p_ = 0;
     do
     :: i_ < Q ->
        if :: ALIVE(i_) && KIND(PROCESS(q_owner[i_])) != KIND(me) -> owed = OTHER(KIND(me)) :: else fi;
        if :: ALIVE(i_) && q_called[i_] == RECENTLY -> p_ = 1 :: else fi;
        i_++
     :: else -> break
     od;
     if :: p_ -> owed = 0 :: else fi;
     i_ = 0; p_ = 1;
     do :: p_ <= P -> fresh[p_] = false; p_++ :: else -> break od;
     p_ = 0
  :: else
  fi
#endif
}

inline choose()
{
  order_after(KIND(me));
  call = (head_ < Q -> q_owner[head_] : 0);
  head_ = 0; next_ = 0
#ifdef LASTLATE
  ; if :: call == 0 -> last = mine; order() :: else fi
#endif
}

proctype process(byte me)
{
  byte n, mine, e, seen, call;
  bool fenced;
  goto over;

wait:                                                              /* looks, by a timer or on a wake-up */
  if
  CRASH
  :: d_step { FREE && MY_TURN -> check_look(); seen = lock } goto take
#ifndef NOMARK
  :: d_step { SEES_FREE && !(MY_TURN) && to_call != 0 && (IN_ALIVE(mine) || !(ROOM || IN(mine))) -> call = to_call; seen = last } goto mark
#endif
  /* A join is the same whatever the look before it saw, which may be old. */
  :: d_step { MAY_JOIN -> do_join(mine) } goto wait
  :: d_step { MAY_JOIN && MAY_BE_LATE -> LINGER(JOIN, mine, 0) } goto wait
  :: d_step { MAY_JOIN && MAY_BE_LATE -> do_join(mine); LINGER(JOIN, mine, 0) } goto wait
  :: d_step { leaves < LEAVES -> leaves++ } goto leave
  fi;

mark:
  if
  CRASH
  :: d_step { true -> do_call(call, seen, false); call = 0; seen = 0 } goto wait
  :: d_step { MAY_BE_LATE -> LINGER(CALL, call, seen); do_call(call, seen, false); call = 0; seen = 0 } goto wait
  :: d_step { MAY_BE_LATE -> LINGER(CALL, call, seen); call = 0; seen = 0 } goto wait
  fi;

take:                                                              /* e, before the insert */
  if
  CRASH
  :: d_step { seen == 0 -> e = epoch } goto insert
  :: d_step { seen == 0 && WOKEN && w_epoch[me] != epoch -> e = w_epoch[me] } goto insert
  :: d_step { seen != 0 -> e = epoch }
  :: d_step { seen != 0 && WOKEN && w_epoch[me] != epoch -> e = w_epoch[me] }
  fi;
  if
  CRASH
  :: d_step { true -> do_steal(seen); seen = 0 }
  :: d_step { MAY_BE_LATE -> LINGER(STEAL, seen, 0); do_steal(seen); seen = 0 }
  fi;

insert:
  if
  CRASH
  :: d_step { CAN_INSERT -> do_insert(mine); begin_to_hold() }
  :: d_step { !(CAN_INSERT) -> e = 0 } goto wait
  :: d_step { MAY_BE_LATE && CAN_INSERT -> LINGER(INSERT, mine, 0); do_insert(mine); begin_to_hold() }
  :: d_step { MAY_BE_LATE -> LINGER(INSERT, mine, 0) } goto release /* no answer */
  fi;
  if
  CRASH
  :: d_step { true -> do_remove(mine, true) }
  :: d_step { MAY_BE_LATE -> LINGER(REMOVE, mine, 0); do_remove(mine, true) }
  :: d_step { MAY_BE_LATE -> LINGER(REMOVE, mine, 0) }
  fi;
#ifdef EPOCHLATE
  d_step { true -> e = epoch };
#elif defined(WAKELATE)
  if
  :: d_step { w_owner[me] == mine -> e = w_epoch[me] }
  :: true
  fi;
#elif defined(WAKEANY)
  if
  :: d_step { w_owner[me] != 0 && w_owner[me] != mine -> e = w_epoch[me] }
  :: true
  fi;
#endif
  if
  CRASH
  :: d_step { CAN_FENCE && HAS_NO_SECOND_LOOK -> fence(); begin_to_use() } goto release
  :: d_step { CAN_FENCE && !HAS_NO_SECOND_LOOK -> fence() }
  :: !(CAN_FENCE) -> goto release
  fi;
  if
  CRASH
  :: lock != mine || expired -> goto release
  :: d_step { lock == mine && !expired -> begin_to_use() }
  fi;

release:
  if
  CRASH
  :: d_step { true -> end_use(); do_delete(mine) }
  :: d_step { MAY_BE_LATE -> LINGER(DELETE, mine, 0); end_use(); do_delete(mine) }
  :: d_step { MAY_BE_LATE -> LINGER(DELETE, mine, 0); end_use() }
  fi;
  if
  CRASH
  :: atomic { d_step { true -> choose() } if :: call == 0 -> goto confirm :: else fi }  /* and the wake-up is lost */
#ifndef FAIR
  :: d_step { fenced && head != 0 -> choose();
       if
#if defined(WAKEANY) || defined(WAKEEARLY)
       :: call != 0 ->
#else
       :: LIVE(call) ->
#endif
          w_owner[PROCESS(call)] = call; w_epoch[PROCESS(call)] = e
       :: else
       fi }
#endif
  fi;
  if
  CRASH
  :: d_step { true -> do_call(call, mine, true) }
  :: d_step { MAY_BE_LATE -> LINGER(CALL, call, mine) }
  fi;
confirm:
#if ROLLS > 0
  if
  CRASH
  :: d_step { true -> do_delete(mine); majority() }
  fi;
#endif
  goto over;

leave:
  if
  CRASH
  :: d_step { true -> do_remove(mine, false) }
  fi;
  if
  CRASH
  :: d_step { FREE && to_call != 0 -> call = to_call; seen = last }
  :: !(FREE && to_call != 0) -> goto over
  fi;
  if
  CRASH
  :: d_step { true -> do_call(call, seen, false) }
  fi;

over:
  atomic {
    e = 0; seen = 0; call = 0; fenced = false; uses[me] = false; holds[me] = false; ahead[me] = 0;
    lapsed[me] = false; gone_epoch[me] = 0;
    if :: epoch_owner == mine -> epoch_owner = 0 :: else fi;
#if !defined(WAKEANY) && !defined(WAKEEARLY)
    w_owner[me] = 0; w_epoch[me] = 0;
#endif
    if
    :: n < N && !(n == 1 && ((FEW) >> (me - 1)) & 1) -> n++; mine = OWNER(me, n); under_way[me] = mine; goto wait
    :: else -> mine = 0; under_way[me] = 0
    fi
  }
}

/* ---- time, and what arrives late ---- */

inline entry(i)
{
  d_step { ALIVE(i) && q_called[i] == RECENTLY -> q_called[i] = LONG_AGO; order() }
}
inline entry_ends(i)
{
  d_step { ALIVE(i) && LIVE(q_owner[i]) && freezes < FREEZES -> freezes++; q_gone[i] = true; order() }
}
inline dead_entry_ends(i)
{
  d_step { ALIVE(i) && !LIVE(q_owner[i]) -> q_gone[i] = true; order() }
}

proctype world()
{
end:
  do
#ifndef FAIR
#ifndef TRUSTED
  :: entry(0)
  :: entry(1)
  :: entry(2)
#if Q > 3
  :: entry(3)
#endif
#endif
#ifndef FOREVER
  :: dead_entry_ends(0)
  :: dead_entry_ends(1)
  :: dead_entry_ends(2)
#if Q > 3
  :: dead_entry_ends(3)
#endif
#endif
#if FREEZES > 0
  :: entry_ends(0)
  :: entry_ends(1)
  :: entry_ends(2)
#if Q > 3
  :: entry_ends(3)
#endif
#endif
#endif
  :: d_step { lock != 0 && !expired && !LIVE(lock) -> expired = true }
#if FREEZES > 0
  :: d_step { lock != 0 && !expired && LIVE(lock) && freezes < FREEZES -> freezes++; expired = true; lapsed[PROCESS(lock)] = true }
#endif
#if ROLLS > 0
  :: d_step { rolls < ROLLS -> rolls++;
       if :: lock != m_lock -> lost_document() :: else fi;
       lock = m_lock; expired = m_expired; last = m_last; i_ = 0;
       do :: i_ < Q -> q_owner[i_] = m_owner[i_]; q_called[i_] = m_called[i_]; q_gone[i_] = m_gone[i_]; i_++ :: else -> break od;
       i_ = 0; order() }
#endif
#if LATES > 0
  :: d_step { late == JOIN -> do_join(late_owner); late = 0; late_owner = 0; late_saw = 0 }
  :: d_step { late == REMOVE -> do_remove(late_owner, true); late = 0; late_owner = 0; late_saw = 0 }
  :: d_step { late == STEAL -> do_steal(late_owner); late = 0; late_owner = 0; late_saw = 0 }
  :: d_step { late == DELETE ->
       assert(freed || !(lock == late_owner && LIVE(lock) && holds[PROCESS(lock)]));
       do_delete(late_owner); late = 0; late_owner = 0; late_saw = 0 }
  :: d_step { late == CALL -> do_call(late_owner, late_saw, false); late = 0; late_owner = 0; late_saw = 0 }
  :: d_step { late == INSERT -> do_insert(late_owner); late = 0; late_owner = 0; late_saw = 0 }
#endif
  :: timeout -> assert(stuck || (under_way[1] == 0 && under_way[2] == 0 && under_way[3] == 0 && under_way[P] == 0)); break
  od
}

init { atomic { byte i; order(); run world(); for (i : 1 .. P) { run process(i) } } }
