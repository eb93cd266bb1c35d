/*
 * A model of a type that is paused and resumed, for the model checker Spin: two operators, a worker, and a worker of an older pawl, while
 * requests arrive late or twice. No lock keeps them apart. It checks
 *
 *   away      nothing is committed from the moment at which an operator knows that the type is paused, until this operator resumes it
 *   over      a pause does not come back after its end is known.
 *
 * tests/model/run pause runs it. By hand: spin -a pause.pml && gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000 -w24
 *
 * What is modelled
 *
 *   ledger     Its epoch, its v, the id of its pause (0: none).
 *   request    Fence, commit, pause, resume: each is done at once and answered, at once and not answered, at once and once more later, or
 *              only later and not answered (-DLATES: so many at a time).
 *   worker     Reads the ledger; unless it is paused it fences from the epoch that it has read, and commits. An older worker takes any
 *              ledger of v 1, and none of v 2.
 *   operator   Reads the ledger; unless it is paused by the other, pauses it at the epoch that it has read. After no answer it reads again,
 *              and sends another request at the epoch that is there by then. Then it resumes, and repeats that until it is done.
 *   pause      Between any two steps, of any length. A crash is a pause that does not end.
 *
 * What is not: the mutex, owners, files; adopting; pawl-lock, which writes nothing.
 *
 * Planted bugs, given to spin as -D, one at a time; each must be found:
 *
 *   PAUSEPLAIN  the pause is a field beside v 1, and raises no epoch
 *   PAUSEV1     the pause raises the epoch, and leaves v at 1
 *   PAUSEANY    the pause does not compare the epoch
 *   RESUMELATE  the resume does not compare the id
 */
#ifndef TAKES
#define TAKES 2 /* of each worker */
#endif
#ifndef LATES
#define LATES 2
#endif

#define FENCE 1
#define COMMIT 2
#define PAUSE 3
#define RESUME 4

typedef request {
  byte kind, epoch, id;
}

byte epoch = 1, v = 1, paused;
bool told[3], ended[3]; /* by id: the operator knows that the type is paused; that it is not any more */
request late[LATES];

hidden byte away, over; /* never set: they name what Spin prints of the assertion */

inline apply(kind_, epoch_, id_, yes)
{
  yes = false;
  if
  :: kind_ == FENCE && epoch == epoch_ && v == 1 ->
    epoch++;
    yes = true
  :: kind_ == COMMIT && epoch == epoch_ && v == 1 ->
    assert(away || !(told[1] || told[2]));
    yes = true
#ifdef PAUSEANY
  :: kind_ == PAUSE && paused == 0 ->
#else
  :: kind_ == PAUSE && epoch == epoch_ ->
#endif
    assert(over || !ended[id_]);
#ifndef PAUSEPLAIN
    epoch++;
#endif
#if !defined(PAUSEPLAIN) && !defined(PAUSEV1)
    v = 2;
#endif
    paused = id_;
    yes = true
#ifdef RESUMELATE
  :: kind_ == RESUME && paused != 0 ->
#else
  :: kind_ == RESUME && paused == id_ ->
#endif
    v = 1;
    paused = 0;
    yes = true
  :: else
  fi
}

inline keep(kind_, epoch_, id_)
{
  place = 0;
  do
  :: place < LATES && late[place].kind != 0 -> place++
  :: else -> break
  od;
  if
  :: place < LATES ->
    late[place].kind = kind_;
    late[place].epoch = epoch_;
    late[place].id = id_
  :: else
  fi;
  place = 0
}

/* One request: `answered`, and then `yes`. */
inline send(kind_, epoch_, id_)
{
  if
  :: d_step { apply(kind_, epoch_, id_, yes); answered = true }
  :: d_step { apply(kind_, epoch_, id_, yes); answered = false }
  :: d_step { apply(kind_, epoch_, id_, yes); answered = true; keep(kind_, epoch_, id_) }
  :: d_step { keep(kind_, epoch_, id_); answered = false; yes = false }
  fi
}

proctype worker(bool older)
{
  byte take, seen, place;
  bool answered, yes, goes;
  for (take : 1 .. TAKES) {
    atomic { seen = epoch; goes = (older -> v == 1 : paused == 0) };
    if
    :: goes ->
      send(FENCE, seen, 0);
      if
      :: answered && yes -> send(COMMIT, seen + 1, 0)
      :: else
      fi
    :: else
    fi;
    atomic { answered = false; yes = false; goes = false; seen = 0 }
  }
}

proctype operator(byte id)
{
  byte seen, by, tries, place;
  bool answered, yes;
  for (tries : 1 .. 2) {
    atomic { seen = epoch; by = paused };
    if
    :: by == 0 && !told[id] -> send(PAUSE, seen, id)
    :: else
    fi;
    atomic {
      answered = false;
      yes = false;
      seen = 0;
      by = 0;
      if
      :: paused == id -> told[id] = true
      :: else
      fi
    }
  };
  if
  :: told[id] ->
    told[id] = false;
    do
    :: paused == id -> send(RESUME, 0, id)
    :: paused != id -> break
    od;
    atomic { ended[id] = true; answered = false; yes = false }
  :: else
  fi
}

inline arrive(at_)
{
  kind = late[at_].kind;
  from = late[at_].epoch;
  whose = late[at_].id;
  late[at_].kind = 0;
  late[at_].epoch = 0;
  late[at_].id = 0;
  apply(kind, from, whose, yes);
  kind = 0;
  from = 0;
  whose = 0;
  yes = false
}

proctype network()
{
  byte kind, from, whose;
  bool yes;
end:
  do
  :: d_step { late[0].kind != 0 -> arrive(0) }
#if LATES > 1
  :: d_step { late[1].kind != 0 -> arrive(1) }
#endif
  od
}

init
{
  atomic {
    run worker(false);
    run worker(true);
    run operator(1);
    run operator(2);
    run network()
  }
}
