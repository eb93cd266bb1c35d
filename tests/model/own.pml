/*
 * A model of a type with a collection of its own (docs/protocol.md), for the model checker Spin: producers that switch once from the
 * shared collection to the type's own, workers that drain both, a worker of an older pawl, and an operator who switches the type to its
 * own collection, and perhaps back. It checks
 *
 *   disordered  messages of one producer are committed in the order in which it inserted them
 *   doubled     no message is committed twice
 *   lost        no message leaves its collection before it is committed
 *   unsettled   what is settled is in neither collection
 *   starved     a pass that ends by itself has committed all that was in both collections when it began: also if `messages` never runs dry
 *   left_out    a worker that ends because the type is empty leaves no message behind
 *   abandoned   the own collection is empty when the type is shared again.
 *
 * tests/model/run own runs it. By hand: spin -a own.pml && gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000 -w24
 *
 * What is modelled
 *
 *   lock       Not at all, on purpose, as in append.pml: the epoch alone keeps holders apart.
 *   ledger     Its epoch, own (v 2, needs own), seq, settled, from.
 *   messages   Of two producers, odd and even ones, each in one collection. With -DSAMEID the first two have one _id, the first
 *              only in `messages`, the second only in the own collection.
 *   producer   Before each insert it may read the ledger. Once it knows of the own collection it uses nothing else. It may also learn
 *              that never.
 *   worker     Reads the ledger and fences from the epoch that it has read; settles by `from`; passes, each of one moment in both
 *              collections. A block is one message. Its delete is sent at any time after the commit, and does not name the epoch.
 *   older      With -DOLDER one worker is of an older pawl, which takes only a ledger of v 1, knows `messages` alone, and leaves `from` as
 *              it is.
 *   operator   Switches in one step that raises the epoch. With -DBACK: fences, sees that the own collection is empty, and switches
 *              back in a second step, once no producer uses the own collection any more (to see to this is the operator's).
 *   pause      Between any two steps, of any length. A crash is "goto idle".
 *
 * What is not: files, clean ends, late copies of requests (append.pml has them), snapshots that are older than now.
 *
 * Planted bugs, given to spin as -D, one at a time; each must be found:
 *
 *   OWNFIRST     a pass reads the own collection first
 *   OWNLATER     a pass reads the own collection at a later time than `messages`
 *   OWNEARLY     a pass goes on to the own collection before all that it saw in `messages` is committed
 *   OWNSTARVES   a pass reads the own collection only if `messages` was empty
 *   EMPTYMISSING an empty answer without the time of a snapshot is believed
 *   FROMLOST     a commit does not set `from`
 *   FROMEARLY    a block of the own collection is committed before all earlier ones are settled
 *   SETTLEBOTH   (with -DSAMEID) settling deletes in both collections
 *   OWNV1        (with -DOLDER) the switch leaves v at 1
 *   OWNPLAIN     the switch does not raise the epoch
 *   EXITSHARED   the last poll of --exit-when-empty does not look into the own collection
 *   BACKBLIND    (with -DBACK, as the next) the operator does not look whether the own collection is empty
 *   BACKFROM     (and -DOLDER) switching back leaves `from`
 */
#ifndef M
#define M 3 /* messages */
#endif
#ifndef E
#define E 4 /* epochs, the switches' among them */
#endif

#define SHARED 0
#define OWN 1
#define BIT(m) (1 << ((m)-1))

byte epoch = 1, seq, settled, from, committed; /* the ledger; which messages are committed */
bool own, v2;
byte file[M + 2]; /* the messages, by seq */
byte there[2];    /* what each collection has */
byte last[2];     /* the last committed message of each producer */
byte learned;     /* producers that use the own collection, and are not done */
bool ended;       /* the type has been shared again */

hidden byte disordered, doubled, lost, unsettled, starved, left_out, abandoned; /* never set: they name what Spin prints of the assertion */

/* A collection's message with the _id of m. */
#ifdef SAMEID
#define NAMED(source, m) (((m) <= 2 && !(there[source] & BIT(m))) -> 3 - (m) : (m))
#else
#define NAMED(source, m) (m)
#endif

/* ---- the server ---- */

inline delete(source_, m_)
{
  if
  :: there[source_] & BIT(NAMED(source_, m_)) ->
    assert(lost || (committed & BIT(NAMED(source_, m_))));
    there[source_] = there[source_] & ~BIT(NAMED(source_, m_))
  :: else
  fi
}

inline raise(settled_)
{
  do
  :: settled < settled_ ->
    settled++;
    assert(unsettled || !((there[SHARED] | there[OWN]) & BIT(file[settled])))
  :: else -> break
  od
}

inline commit(epoch_, seq_, m_, source_, settled_, older_)
{
  yes = (epoch == epoch_ && seq == seq_ && (!older_ || !v2));
  if
  :: yes ->
    assert(doubled || !(committed & BIT(m_)));
    assert(disordered || last[m_ & 1] < m_);
    raise(settled_);
    committed = committed | BIT(m_);
    last[m_ & 1] = m_;
    seq++;
    file[seq] = m_;
#ifndef FROMLOST
    if
    :: !older_ -> from = source_
    :: else
    fi
#endif
  :: else
  fi
}

/* ---- producers ---- */

proctype producer(byte first)
{
  byte m = first;
  bool uses;
  do
  :: m <= M ->
    if
    :: atomic { own && !uses && !ended -> uses = true; learned++ }
    :: true
    fi;
#ifdef SAMEID
    atomic {
      if
      :: m > 2 || m == 1 + uses -> there[uses] = there[uses] | BIT(m)
      :: else
      fi
    }
#else
    atomic { there[uses] = there[uses] | BIT(m) }
#endif
    m = m + 2
  :: else -> break
  od;
  atomic { learned = learned - uses; uses = false; m = 0 }
}

/* ---- a worker ---- */

#define LOWEST(set) (((set)&1) -> 1 : (((set)&2) -> 2 : (((set)&4) -> 3 : 4)))

/* One of the deletes that are due. `behind` has, by source, the committed messages whose deletes are not acknowledged. */
inline delete_one(source_)
{
  atomic {
    behind[source_] ->
    m = LOWEST(behind[source_]);
    delete(source_, m);
    behind[source_] = behind[source_] & ~BIT(m);
    m = 0
  }
}

/* What this worker knows to be settled: all before the first that is not deleted. */
inline count_settled()
{
  done = settled_seen;
  do
  :: done < at && !((behind[SHARED] | behind[OWN]) & BIT(file[done + 1])) -> done++
  :: else -> break
  od;
  settled_seen = done;
  done = 0
}

inline forget_all()
{
  d_step {
    mine = 0;
    at = 0;
    settled_seen = 0;
    seen[SHARED] = 0;
    seen[OWN] = 0;
    behind[SHARED] = 0;
    behind[OWN] = 0;
    began = 0;
    m = 0;
    source = 0;
    both = false;
    yes = false
  }
}

#ifdef EXITSHARED
#define EXIT_TOO
#else
#define EXIT_TOO &&there[OWN] == 0
#endif

proctype worker(bool older)
{
  byte mine, at, settled_seen, seen[2], behind[2], began, m, done, source;
  bool both, yes;

idle:
  forget_all();
end:
  do
  :: atomic { there[SHARED] == 0 EXIT_TOO -> assert(left_out || there[OWN] == 0) } /* it ends, and another one is started */
  :: atomic {
       epoch < E && !(older && v2) -> /* the fence: one that fails changes nothing */
       epoch++;
       mine = epoch;
       at = seq;
       settled_seen = settled;
       source = (older -> SHARED : from);
       both = own && !older;
       break
     }
  od;
  /* settle */
  do
  :: settled_seen < at ->
    atomic {
#ifdef SETTLEBOTH
      delete(SHARED, file[settled_seen + 1]);
      delete(OWN, file[settled_seen + 1]);
#else
      delete(source, file[settled_seen + 1]);
#endif
      settled_seen++
    }
  :: settled_seen == at -> break
  :: goto idle
  od;
  atomic {
    if
    :: epoch == mine && !(older && v2) -> raise(settled_seen)
    :: else -> goto idle
    fi
  };

pass:
  /* No delete is due. */
  atomic {
    seen[SHARED] = there[SHARED];
    if
    :: both -> seen[OWN] = there[OWN]
    :: else
    fi;
    began = there[SHARED] | ((own && !older) -> there[OWN] : 0);
#ifdef OWNSTARVES
    seen[OWN] = (seen[SHARED] -> 0 : seen[OWN]);
#endif
#ifdef OWNFIRST
    source = (both -> OWN : SHARED)
#else
    source = SHARED
#endif
  };
#ifdef EMPTYMISSING
  if
  :: seen[SHARED] = 0
  :: true
  fi;
#endif

drain:
  do
  :: seen[source] ->
    /* the next block */
    atomic {
      m = LOWEST(seen[source]);
      seen[source] = seen[source] & ~BIT(m);
      count_settled();
      commit(mine, at, m, source, settled_seen, older);
      if
      :: yes -> at++; behind[source] = behind[source] | BIT(m); m = 0; yes = false
      :: else -> goto idle
      fi
    }
  :: delete_one(SHARED)
  :: delete_one(OWN)
  :: goto idle /* a crash, or the epoch is given up */
#ifdef OWNEARLY
  :: atomic { source == SHARED && both && behind[SHARED] == 0 && seen[SHARED] -> source = OWN }
#endif
#ifdef FROMEARLY
  :: atomic { seen[source] == 0 -> break }
#else
  :: atomic { seen[source] == 0 && behind[source] == 0 -> break }
#endif
  od;
#ifdef OWNFIRST
  if
  :: atomic { source == OWN -> source = SHARED; goto drain }
  :: atomic { source == SHARED -> skip }
  fi;
#else
  if
  :: atomic { both && source == SHARED ->
      source = OWN;
#ifdef OWNLATER
      seen[OWN] = there[OWN];
#endif
      goto drain }
  :: atomic { !both || source == OWN -> skip }
  fi;
#endif
#ifdef FROMEARLY
  do
  :: delete_one(SHARED)
  :: delete_one(OWN)
  :: behind[SHARED] == 0 && behind[OWN] == 0 -> break
  :: goto idle
  od;
#endif
  atomic {
    count_settled();
    if
    :: epoch == mine && !(older && v2) ->
#if !defined(EMPTYMISSING) && !defined(OWNEARLY)
      assert(starved || !(began & ~committed));
#endif
      raise(settled_seen)
    :: else -> goto idle
    fi
  };
  began = 0;
  source = SHARED;
  if
  :: goto pass
  :: goto idle
  fi;
}

/* ---- the operator ---- */

proctype operator()
{
  byte mine;
  mine = epoch;
  atomic {
    if
#ifdef OWNPLAIN
    :: true ->
#else
    :: epoch == mine ->
      epoch++;
#endif
      own = true;
#ifndef OWNV1
      v2 = true
#endif
    :: else -> goto over
    fi
  };
#ifdef BACK
  /* A fence of its own, once producers are done with the own collection. */
  atomic { learned == 0 -> ended = true; mine = epoch };
  atomic {
    if
    :: epoch == mine -> epoch++; mine = epoch
    :: else -> goto over
    fi
  };
#ifndef BACKBLIND
  if
  :: there[OWN] == 0
  :: there[OWN] -> goto over
  fi;
#endif
  atomic {
    if
    :: epoch == mine ->
      epoch++;
      assert(abandoned || there[OWN] == 0);
      own = false;
      v2 = false;
#ifndef BACKFROM
      from = SHARED
#endif
    :: else
    fi
  };
#endif
over:
  mine = 0
}

init
{
  atomic {
    run producer(1);
    run producer(2);
    run worker(false);
#ifdef OLDER
    run worker(true);
#else
    run worker(false);
#endif
    run operator()
  }
}
