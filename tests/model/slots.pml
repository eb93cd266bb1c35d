/*
 * A model of a lock with several slots for the model checker Spin: three or four processes, their wait queue, the slots, and the tokens.
 * queue.pml has what a mutex adds: turns between two kinds of holders, wake-ups with an epoch, late requests, roll-backs. The names
 * are those of the assertions:
 *
 *   rises       a process begins to use a slot with a token above all with which others began in it;
 *   evicted     and only while the slot's document is its own: no later holder of the slot is refused because of it;
 *   many        no more use one than there are slots, of those whose lease is not over;
 *   overtaken   no process tries to take a slot while as many are before it in the queue, alive and not called long ago, as
 *               slots are free; unless it was called itself;
 *   twice       no two of the queue may try for the same slot at one moment, unless one was called long ago;
 *   stuck       when nothing can happen any more, no process waits.
 *
 * tests/model/run slots runs it. By hand: spin -a slots.pml && gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000 -w24
 *
 * What is modelled
 *
 *   slot        A document: the owner, and whether its time is over. That of a process that is gone ends some time; that of a live one
 *               too, with -DFREEZES.
 *   queue       A list of entries with the time of the call (not, recently, long ago). With -DFOREVER the entries of the dead
 *               do not end: calls alone must get the others on.
 *   look        One step: it reads slots and queue. A look that changes nothing takes no step.
 *   call        By a process that sees more slots free than entries that are called, and by a release: the first that is not called.
 *   take        The slot of my place among those who may try: the steal, the insert, the removal from the queue, the token, the second
 *               look. Another process may overtake between any two.
 *   release     The delete, then a call.
 *   crash       At any step (-DCRASHES). The process begins another acquisition, and knows nothing of the last.
 *
 * Planted bugs, given to spin as -D, one at a time; each must be found by an assertion that is its own:
 *
 *   SECONDFIRST the second look comes before the token is drawn
 *   NOSECOND    there is no second look
 *   TOKENFIRST  the token is drawn before the insert
 *   BARGE       a process that sees a slot free takes it
 *   ONETURN     only the first of the queue may try, whatever number of slots is free, and whoever was called long ago
 *   SAMESLOT    each that may try takes the first free slot
 *   NOMARK      only a release calls, not a process that sees a slot free
 *   TRUSTED     an entry that was called keeps the others off for ever
 *   LEASED      a slot whose lease is over is not free
 *   STEALANY    a steal compares neither owner nor time
 */
#ifndef P
#define P 3 /* processes */
#endif
#ifndef S
#define S 2 /* slots */
#endif
#ifndef N
#define N 1 /* acquisitions a process */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef FREEZES
#define FREEZES 0
#endif

#define PROCESS(o) (((o) - 1) % P + 1)
#define OWNER(p, n) (((n) - 1) * P + (p))

#define NOT 0
#define RECENTLY 1
#define LONG_AGO 2

byte slot[S];
bool over[S];
byte q_owner[P], q_called[P];
bool q_gone[P];
byte drawn;
byte crashes, freezes;
byte under_way[P + 1];

hidden byte rises, evicted, many, overtaken, twice, stuck; /* never set: they name what Spin prints of an assertion */

bool uses[P + 1], lapsed[P + 1];
byte used[S];      /* the greatest token with which a process began in it */
bool queued[P + 1]; /* it has joined */

/* What follows from it all: derive(). */
byte turn[P + 1];  /* 0: not mine; otherwise the slot that I may try, from 1 on */
bool late[P + 1];  /* it was called long ago */
byte to_call;

hidden byte i_, j_, p_, free_, ahead_, called_, next_, me_;

#define LIVE(o) ((o) != 0 && under_way[PROCESS(o)] == (o))
#define ALIVE(i) (q_owner[i] != 0 && !q_gone[i])
#ifdef TRUSTED
#define WAITS(i) ALIVE(i)
#else
#define WAITS(i) (ALIVE(i) && q_called[i] != LONG_AGO)
#endif
#ifdef LEASED
#define FREE(k) (slot[k] == 0)
#else
#define FREE(k) (slot[k] == 0 || over[k])
#endif

/* How many are before process p, as wait_queue_ahead says: ahead_. */
inline count_ahead(p)
{
  next_ = P;
  me_ = P;
  ahead_ = 0;
  i_ = 0;
  do
  :: i_ < P ->
     if :: q_owner[i_] != 0 && q_owner[i_] == under_way[p] -> me_ = i_ :: else fi;
     if :: next_ == P && ALIVE(i_) && q_called[i_] == RECENTLY -> next_ = i_ :: else fi;
     i_++
  :: else -> break
  od;
  i_ = 0;
  do
  :: i_ < P && next_ == P -> if :: WAITS(i_) || (i_ == me_ && me_ < P) -> next_ = i_ :: else fi; i_++
  :: else -> break
  od;
  i_ = 0;
  do
  :: i_ < P ->
     if
     :: i_ != me_ && WAITS(i_) && (me_ == P || i_ < me_ || q_called[i_] == RECENTLY) -> ahead_++
     :: else
     fi;
     i_++
  :: else -> break
  od;
  late[p] = (me_ < P && q_called[me_ % P] == LONG_AGO);
  if
  :: me_ < P && next_ == me_ -> ahead_ = 0
  :: me_ < P && next_ != me_ && ahead_ == 0 -> ahead_ = 1
  :: else
  fi
}

inline derive()
{
  p_ = 1;
  do
  :: p_ <= P ->
     turn[p_] = 0;
     count_ahead(p_);
     free_ = 0;
     j_ = 0;
     do
     :: j_ < S ->
        if
        :: FREE(j_) ->
           if
#ifdef BARGE
           :: turn[p_] == 0 -> turn[p_] = j_ + 1
#elif defined(ONETURN)
           :: free_ == 0 && ahead_ == 0 && (me_ == P || me_ == 0) -> turn[p_] = j_ + 1
#else
           :: free_ == ahead_ -> turn[p_] = j_ + 1
#endif
           :: else
           fi;
           free_++
        :: else
        fi;
        j_++
     :: else -> break
     od;
#ifdef SAMESLOT
     j_ = 0;
     do
     :: j_ < S && turn[p_] != 0 && !FREE(j_) -> j_++
     :: else -> break
     od;
     if :: turn[p_] != 0 -> turn[p_] = j_ + 1 :: else fi;
#endif
     p_++
  :: else -> break
  od;
  called_ = 0;
  to_call = 0;
  i_ = 0;
  do
  :: i_ < P -> if :: q_owner[i_] != 0 && q_called[i_] == RECENTLY -> called_++ :: else fi; i_++
  :: else -> break
  od;
  i_ = 0;
  do
  :: i_ < P && to_call == 0 && called_ < free_ -> if :: ALIVE(i_) && q_called[i_] == NOT -> to_call = q_owner[i_] :: else fi; i_++
  :: else -> break
  od;
  i_ = 0; j_ = 0; p_ = 0; free_ = 0; ahead_ = 0; called_ = 0; next_ = 0; me_ = 0
}

inline do_join(o)
{
  i_ = 0;
  do :: i_ < P && q_owner[i_] != 0 && q_owner[i_] != (o) -> i_++ :: else -> break od;
  if
  :: i_ < P && q_owner[i_] == 0 -> q_owner[i_] = (o); q_called[i_] = NOT; q_gone[i_] = false
  :: i_ < P && q_owner[i_] != 0 -> q_gone[i_] = false
  :: else
  fi;
  i_ = 0;
  derive()
}

inline do_remove(o)
{
  i_ = 0;
  j_ = 0;
  do
  :: i_ < P ->
     if
     :: q_owner[i_] != 0 && (q_owner[i_] == (o) || q_gone[i_])
     :: else -> q_owner[j_] = q_owner[i_]; q_called[j_] = q_called[i_]; q_gone[j_] = q_gone[i_]; j_++
     fi;
     i_++
  :: else -> break
  od;
  do :: j_ < P -> q_owner[j_] = 0; q_called[j_] = NOT; q_gone[j_] = false; j_++ :: else -> break od;
  i_ = 0;
  j_ = 0;
  derive()
}

inline do_call(o)
{
  i_ = 0;
  do
  :: i_ < P -> if :: q_owner[i_] == (o) && (o) != 0 && q_called[i_] == NOT -> q_called[i_] = RECENTLY :: else fi; i_++
  :: else -> break
  od;
  i_ = 0;
  derive()
}

#define CRASH :: d_step { crashes < CRASHES -> crashes++ } goto begin

inline check_look()
{
  free_ = 0;
  ahead_ = 0;
  me_ = P;
  i_ = 0;
  do :: i_ < P -> if :: q_owner[i_] == mine -> me_ = i_ :: else fi; i_++ :: else -> break od;
  i_ = 0;
  do :: i_ < P -> if :: i_ < me_ && ALIVE(i_) && q_called[i_] != LONG_AGO -> ahead_++ :: else fi; i_++ :: else -> break od;
  i_ = 0;
  do :: i_ < S -> if :: slot[i_] == 0 || over[i_] -> free_++ :: else fi; i_++ :: else -> break od;
  assert(overtaken || ahead_ < free_ || (me_ < P && q_called[me_] == RECENTLY));
  i_ = 1;
  do
  :: i_ <= P ->
     assert(twice || i_ == me || !queued[i_] || !queued[me] || late[i_] || late[me] || turn[i_] != turn[me]);
     i_++
  :: else -> break
  od;
  i_ = 0; free_ = 0; ahead_ = 0; me_ = 0
}

inline begin_to_use()
{
  assert(evicted || slot[k] == mine);
  assert(rises || token > used[k]);
  used[k] = token;
  uses[me] = true;
  i_ = 1;
  j_ = 0;
  do :: i_ <= P -> if :: uses[i_] && !lapsed[i_] -> j_++ :: else fi; i_++ :: else -> break od;
  assert(many || j_ <= S);
  i_ = 0; j_ = 0
}

#define STEALS (seen != 0)
#define MAY_JOIN (!queued[me])

proctype process(byte me)
{
  byte n, mine, k, seen, call, token;
  goto begin;

wait:
  if
  CRASH
  :: d_step { turn[me] != 0 -> check_look(); k = turn[me] - 1; seen = slot[k] } goto take
#ifndef NOMARK
  :: d_step { turn[me] == 0 && to_call != 0 && queued[me] -> call = to_call } goto mark
#endif
  :: d_step { MAY_JOIN -> do_join(mine); queued[me] = true } goto wait
  fi;

mark:
  if
  CRASH
  :: d_step { true -> do_call(call); call = 0 } goto wait
  fi;

take:
  if
  CRASH
#ifdef TOKENFIRST
  :: d_step { true -> drawn++; token = drawn }
#else
  :: true
#endif
  fi;
  if
  CRASH
#ifdef STEALANY
  :: d_step { STEALS -> slot[k] = 0; over[k] = false; derive(); seen = 0 }
#else
  :: d_step { STEALS -> if :: slot[k] == seen && over[k] -> slot[k] = 0; over[k] = false; derive() :: else fi; seen = 0 }
#endif
  :: !(STEALS)
  fi;
  if
  CRASH
  :: d_step { slot[k] == 0 -> slot[k] = mine; over[k] = false; derive() }
  :: slot[k] != 0 -> goto wait
  fi;
  if
  CRASH
  :: d_step { true -> do_remove(mine); queued[me] = false }
  fi;

#ifdef SECONDFIRST
  if
  CRASH
  :: slot[k] != mine || over[k] -> goto release
  :: slot[k] == mine && !over[k]
  fi;
#endif
#if defined(SECONDFIRST) || defined(NOSECOND)
  if
  CRASH
  :: d_step { true -> drawn++; token = drawn; begin_to_use() } goto release
  fi;
#elif !defined(TOKENFIRST)
  if
  CRASH
  :: d_step { true -> drawn++; token = drawn }
  fi;
#endif
  if
  CRASH
  :: slot[k] != mine || over[k] -> goto release
  :: d_step { slot[k] == mine && !over[k] -> begin_to_use() }
  fi;

release:
  if
  CRASH
  :: d_step { true -> uses[me] = false; if :: slot[k] == mine -> slot[k] = 0; over[k] = false; derive() :: else fi }
  fi;
  if
  CRASH
  :: d_step { true -> call = to_call }
  fi;
  if
  CRASH
  :: d_step { true -> do_call(call) }
  fi;

begin:
  atomic {
    seen = 0; call = 0; token = 0; k = 0; queued[me] = false; uses[me] = false; lapsed[me] = false;
    if
    :: n < N -> n++; mine = OWNER(me, n); under_way[me] = mine; derive(); goto wait
    :: else -> mine = 0; under_way[me] = 0; derive()
    fi
  }
}

proctype world()
{
end:
  do
  :: d_step { ALIVE(0) && q_called[0] == RECENTLY -> q_called[0] = LONG_AGO; derive() }
  :: d_step { ALIVE(1) && q_called[1] == RECENTLY -> q_called[1] = LONG_AGO; derive() }
  :: d_step { ALIVE(2) && q_called[2] == RECENTLY -> q_called[2] = LONG_AGO; derive() }
#if P > 3
  :: d_step { ALIVE(3) && q_called[3] == RECENTLY -> q_called[3] = LONG_AGO; derive() }
#endif
#ifndef FOREVER
  :: d_step { ALIVE(0) && !LIVE(q_owner[0]) -> q_gone[0] = true; derive() }
  :: d_step { ALIVE(1) && !LIVE(q_owner[1]) -> q_gone[1] = true; derive() }
  :: d_step { ALIVE(2) && !LIVE(q_owner[2]) -> q_gone[2] = true; derive() }
#if P > 3
  :: d_step { ALIVE(3) && !LIVE(q_owner[3]) -> q_gone[3] = true; derive() }
#endif
#endif
  :: d_step { slot[0] != 0 && !over[0] && !LIVE(slot[0]) -> over[0] = true; derive() }
  :: d_step { slot[1] != 0 && !over[1] && !LIVE(slot[1]) -> over[1] = true; derive() }
#if FREEZES > 0
  :: d_step { slot[0] != 0 && !over[0] && LIVE(slot[0]) && freezes < FREEZES ->
       freezes++; over[0] = true; lapsed[PROCESS(slot[0])] = true; derive() }
  :: d_step { slot[1] != 0 && !over[1] && LIVE(slot[1]) && freezes < FREEZES ->
       freezes++; over[1] = true; lapsed[PROCESS(slot[1])] = true; derive() }
#endif
  :: timeout -> assert(stuck || (under_way[1] == 0 && under_way[2] == 0 && under_way[3] == 0 && under_way[P] == 0)); break
  od
}

init { atomic { byte i; derive(); run world(); for (i : 1 .. P) { run process(i) } } }
