/*
 * A model of the tokens of one name for the model checker Spin: its ledger is made, its epoch is raised, and it is removed again and
 * again, by processes that no lock keeps apart, while requests arrive late. It checks
 *
 *   rises     each epoch is greater than all that the name ever had.
 *
 * tests/model/run floor runs it. By hand: spin -a floor.pml && gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000 -w24
 *
 * What is modelled
 *
 *   ledger     There or not; its epoch; its birth while the epoch is 0. The floor.
 *   request    Insert, fence, raise, remove: each is done at once and answered, at once and not answered, or at any later time and
 *              not answered (-DLATES: so many at a time). Never twice: what is sent again is another request.
 *   taker      Reads the ledger. From an epoch above 0 it fences to the next one. Otherwise it inserts one with a birth of its own, or
 *              takes that of the one that is there; reads the floor; and fences from that birth to the floor plus one. A fence is also what
 *              a draw of a token does.
 *   forgetter  Reads the ledger, raises the floor to its epoch, and, once that is answered, removes the ledger as it was seen.
 *   pause      Between any two steps, of any length. A crash is a pause that does not end.
 *
 * What is not: the mutex (nothing here rests on it), owners, files, roll-backs (all here is acknowledged by the majority, or has no answer).
 *
 * Planted bugs, given to spin as -D, one at a time; each must be found:
 *
 *   FLOORLAST   the ledger is removed, then the floor is raised
 *   FLOOREARLY  the floor is read before the insert
 *   ATONCE      the insert makes a ledger with the epoch after the floor
 *   NOBIRTH     a fence from 0 does not compare the birth
 *   SAMEBIRTH   a taker has the same birth in each insert
 *   REMOVEANY   a removal does not compare the epoch
 *   LOWERED     the floor is set, not raised
 */
#ifndef TAKES
#define TAKES 2 /* of each of two takers */
#endif
#ifndef FORGETS
#define FORGETS 2
#endif
#ifndef LATES
#define LATES 2
#endif

#define INSERT 1
#define FENCE 2
#define RAISE 3
#define REMOVE 4

typedef request {
  byte kind, epoch, birth, next;
}

bool there;
byte epoch, birth, floor;
byte greatest; /* of all epochs so far */
byte births;   /* drawn so far */
request late[LATES];

hidden byte rises; /* never set: it names what Spin prints of the assertion */

inline give(number_)
{
  assert(rises || number_ > greatest);
  greatest = number_
}

/* `yes`: it was done. */
inline apply(kind_, epoch_, birth_, next_, yes)
{
  yes = false;
  if
  :: kind_ == INSERT && !there ->
    there = true;
    epoch = epoch_;
    birth = birth_;
    yes = true;
    if
    :: epoch > 0 -> give(epoch)
    :: else
    fi
#ifdef NOBIRTH
  :: kind_ == FENCE && there && epoch == epoch_ ->
#else
  :: kind_ == FENCE && there && epoch == epoch_ && birth == birth_ ->
#endif
    epoch = next_;
    birth = 0;
    yes = true;
    give(epoch)
#ifdef LOWERED
  :: kind_ == RAISE -> floor = next_; yes = true
#else
  :: kind_ == RAISE -> floor = (next_ > floor -> next_ : floor); yes = true
#endif
#ifdef REMOVEANY
  :: kind_ == REMOVE && there ->
#else
  :: kind_ == REMOVE && there && epoch == epoch_ && birth == birth_ ->
#endif
    there = false;
    epoch = 0;
    birth = 0;
    yes = true
  :: else
  fi
}

/* One request: `answered`, and then `yes`; or it may be done later. */
inline send(kind_, epoch_, birth_, next_)
{
  if
  :: d_step { apply(kind_, epoch_, birth_, next_, yes); answered = true }
  :: d_step { apply(kind_, epoch_, birth_, next_, yes); answered = false }
  :: d_step {
      place = 0;
      do
      :: place < LATES && late[place].kind != 0 -> place++
      :: else -> break
      od;
      if
      :: place < LATES ->
        late[place].kind = kind_;
        late[place].epoch = epoch_;
        late[place].birth = birth_;
        late[place].next = next_
      :: else
      fi;
      place = 0;
      answered = false
    }
  fi
}

proctype taker(byte me)
{
  byte take, seen, mine, from, place;
  bool answered, yes;
  for (take : 1 .. TAKES) {
    atomic { seen = (there -> epoch : 0); mine = 0; from = 0 };
    if
    :: seen > 0 -> send(FENCE, seen, 0, seen + 1)
    :: else ->
      d_step {
#ifdef SAMEBIRTH
        mine = me;
#else
        births++;
        mine = births;
#endif
#if defined(FLOOREARLY) || defined(ATONCE)
        from = floor
#endif
      };
#ifdef ATONCE
      send(INSERT, from + 1, 0, 0);
#else
      send(INSERT, 0, mine, 0);
      if
      :: answered ->
        if
        :: !yes -> mine = (there && epoch == 0 -> birth : 0)
        :: else
        fi;
        if
        :: mine > 0 ->
#ifndef FLOOREARLY
          from = floor;
#endif
          send(FENCE, 0, mine, from + 1)
        :: else
        fi
      :: else
      fi
#endif
    fi;
    atomic { answered = false; yes = false; seen = 0; mine = 0; from = 0 }
  }
}

proctype forgetter()
{
  byte round, seen, mine, place;
  bool answered, yes, any;
  for (round : 1 .. FORGETS) {
    atomic { any = there; seen = epoch; mine = birth };
    if
    :: any ->
#ifdef FLOORLAST
      send(REMOVE, seen, mine, 0);
      if
      :: answered -> send(RAISE, 0, 0, seen)
      :: else
      fi
#else
      send(RAISE, 0, 0, seen);
      if
      :: answered -> send(REMOVE, seen, mine, 0)
      :: else
      fi
#endif
    :: else
    fi;
    atomic { answered = false; yes = false; any = false; seen = 0; mine = 0 }
  }
}

inline arrive(at_)
{
  kind = late[at_].kind;
  from = late[at_].epoch;
  number = late[at_].birth;
  to = late[at_].next;
  late[at_].kind = 0;
  late[at_].epoch = 0;
  late[at_].birth = 0;
  late[at_].next = 0;
  apply(kind, from, number, to, yes);
  kind = 0;
  from = 0;
  number = 0;
  to = 0;
  yes = false
}

proctype network()
{
  byte kind, from, number, to;
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
    run taker(1);
    run taker(2);
    run forgetter();
    run network()
  }
}
