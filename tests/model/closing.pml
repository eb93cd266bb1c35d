/*
 * A model of the own collection's opening and closing (docs/protocol.md, Own collections), for the model checker Spin: runs of pawl-setup
 * that give a type its own collection, or take it away, at the same time; a producer that was told of it, and inserts whenever it is open;
 * a worker that reads it as long as the ledger says so. Once all runs have ended:
 *
 *   unread     no message is in the collection of a type that is shared
 *   shut       the collection of a type that has it is open
 *   ajar       that of a type that is shared is closed.
 *
 * tests/model/run closing runs it. By hand: spin -a closing.pml && gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000 -w24
 *
 * What is modelled
 *
 *   lock       Not at all, on purpose: a run may be frozen beyond its lease, so the epoch alone keeps the runs apart.
 *   ledger     Its epoch, and own.
 *   run        GIVES of them give the type its own collection, TAKES take it away. Between any two steps others may do anything.
 *   late       The request that takes it away may get no answer; then it takes effect later, or never.
 *   worker     Takes messages out of the collection. Its fence raises the epoch, FENCES times.
 *
 * What is not: a run that is killed; a collMod that takes effect after its run has given up; moving; that the collection is missing.
 *
 * Planted bugs, given to spin as -D, one at a time; each must be found:
 *
 *   OPENFIRST  it is opened before the ledger says that the type has it
 *   LATEEND    a run whose request to take it away got no answer takes the ledger as it is, in the epoch of that request
 *   ENDBLIND   a run that has taken it away ends without a look at both
 *   AGREEBLIND a run that finds it closed and shared does not look for messages
 */
#ifndef GIVES
#define GIVES 1
#endif
#ifndef TAKES
#define TAKES 1
#endif
#ifndef FENCES
#define FENCES 1
#endif
#ifndef INSERTS
#define INSERTS 2
#endif
#ifndef EPOCHS
#define EPOCHS 12 /* what needs more is cut off */
#endif

byte epoch = 1;
bool own = true;
bool closed, there; /* there: a message is in it */
byte late;    /* the epoch of a request to take it away that may still take effect; 0: none */
byte running; /* runs that have not ended */
bool unread, shut, ajar;
bool cut;

inline begin(seen, yes)
{
  atomic {
    if
    :: epoch == seen && epoch < EPOCHS -> epoch++; own = true; yes = true
    :: else -> yes = false
    fi
  }
}

/* As long as ledger and collection do not agree, or the ledger has an epoch below `least`. */
inline agree(least, seen, was, yes)
{
  do
  :: epoch >= EPOCHS -> cut = true; break
  :: atomic { epoch < EPOCHS -> seen = epoch; was = own };
    if
    :: was && !closed && seen >= least -> break
    :: was && (closed || seen < least) ->
      begin(seen, yes);
      if
      :: yes -> closed = false
      :: else
      fi
    :: !was && !closed -> closed = true
    :: !was && closed ->
      if
#ifdef AGREEBLIND
      :: true -> break
#else
      :: !there -> break
      :: there ->
        begin(seen, yes);
        if
        :: yes -> closed = false
        :: else
        fi
#endif
      fi
    fi
  od
}

proctype gives()
{
  byte seen;
  bool was, yes;
#ifdef OPENFIRST
  closed = false;
#endif
  do
  :: epoch >= EPOCHS -> cut = true; break
  :: atomic { epoch < EPOCHS -> seen = epoch; was = own };
    if
    :: was -> break
    :: else -> begin(seen, yes)
    fi
  od;
#ifndef OPENFIRST
  agree(0, seen, was, yes);
#endif
  seen = 0;
  atomic { was = false; yes = false; running-- }
}

proctype takes()
{
  byte seen, mine;
  bool was, yes;
  seen = epoch;
  atomic {
    if
    :: epoch == seen && own && epoch < EPOCHS -> epoch++; mine = epoch
    :: else -> goto over
    fi
  };
  closed = true;
  if
  :: !there
  :: there -> goto settle
  fi;
  atomic {
    if
    :: epoch == mine && epoch < EPOCHS -> epoch++; own = false
    :: late == 0 ->
      late = mine; /* no answer, and it gives up */
#ifndef LATEEND
      mine++
#endif
    :: else
    fi
  };
settle:
#ifndef ENDBLIND
  agree(mine, seen, was, yes);
#endif
over:
  atomic { seen = 0; mine = 0; was = false; yes = false; running-- }
}

proctype network()
{
end:
  do
  :: d_step { late != 0 && epoch == late && epoch < EPOCHS -> epoch++; own = false; late = 0 }
  :: d_step { late != 0 -> late = 0 }
  od
}

proctype producer()
{
  byte count;
  do
  :: d_step { count < INSERTS && !closed -> there = true; count++ }
  :: break
  od
}

proctype worker()
{
  byte fences;
end:
  do
  :: d_step { own && there -> there = false }
  :: d_step { fences < FENCES && epoch < EPOCHS -> epoch++; fences++ }
  od
}

/* At any moment after the last run has ended, and no request of theirs is on its way. */
proctype watch()
{
end:
  d_step { running == 0 && !cut && (late == 0 || late != epoch) ->
    assert(unread || own || !there);
    assert(shut || !own || !closed);
    assert(ajar || own || closed)
  }
}

init
{
  atomic {
    byte count;
    if
    :: true /* the type has it */
    :: closed = true /* and a run that was killed has left it closed */
    :: closed = true; own = false
    fi;
    running = GIVES + TAKES;
    for (count : 1 .. GIVES) {
      run gives()
    }
    for (count : 1 .. TAKES) {
      run takes()
    }
    count = 0;
    run network();
    run producer();
    run worker();
    run watch()
  }
}
