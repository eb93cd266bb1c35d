/*
 * A model of several names at once for the model checker Spin: processes that want sets of names in any order, and take them one after the
 * other. What a name alone is, queue.pml has; here it is held or free.
 *
 *   all         who goes on has all of its names, or its time with one of them is over, too;
 *   none        who has given up has none;
 *   stuck       when nothing can happen any more, no process waits.
 *
 * tests/model/run names runs it.
 *
 * A process takes its names in their order, and waits for each while it has the earlier ones. At any moment while it waits its time may be
 * over (-DTIMEOUTS): it gives all back. It may crash (-DCRASHES): its leases end. A lease of the living may end, too (-DENDS), because
 * renewals had no answer: it looks at all of its names once more when it has the last, and gives them back if one is gone. Its turn comes TIMES times.
 *
 * Planted bugs: UNSORTED: the names are taken in the order in which they were given. KEEPFIRST: who gives up keeps what it took first.
 * ONEBACK: who has all and ends gives back one only. NOLOOK: it does not look at its names once more.
 */
#ifndef TIMES
#define TIMES 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef ENDS
#define ENDS 1
#endif

byte holder[3];
bool dead[4], waits[4];
byte timeouts, crashes, ends;
hidden byte all, none, stuck, i_;

inline give_back(first)
{
  i_ = first;
  do :: i_ < 3 -> if :: holder[i_] == me -> holder[i_] = 0 :: else fi; i_++ :: else -> break od;
  i_ = 0
}

proctype process(byte me, a, b)
{
  byte times, x, y;
#ifdef UNSORTED
  x = a; y = b;
#else
  x = (a < b -> a : b); y = (a < b -> b : a);
#endif
again:
  waits[me] = true;
  if
  :: atomic { holder[x] == 0 -> holder[x] = me }
  :: atomic { timeouts < TIMEOUTS -> timeouts++; goto back }
  fi;
  if
  :: atomic { holder[y] == 0 -> holder[y] = me; waits[me] = false }
  :: atomic { timeouts < TIMEOUTS -> timeouts++; goto back }
  :: atomic { crashes < CRASHES -> crashes++; waits[me] = false; dead[me] = true; goto over }
  fi;
#ifdef NOLOOK
  assert(all || (holder[x] == me && holder[y] == me));
#else
  if
  :: atomic { holder[x] == me && holder[y] == me -> assert(all || (holder[x] == me && holder[y] == me)) }
  :: holder[x] != me || holder[y] != me -> goto back
  fi;
#endif
  if
#ifdef ONEBACK
  :: d_step { true -> holder[x] = 0 }
#else
  :: d_step { true -> give_back(0) }
#endif
  :: atomic { crashes < CRASHES -> crashes++; dead[me] = true; goto over }
  fi;
  goto next;
back:
  true;
  d_step {
    waits[me] = false;
#ifdef KEEPFIRST
    if :: holder[y] == me -> holder[y] = 0 :: else fi;
#else
    give_back(0);
#endif
    assert(none || (holder[x] != me && holder[y] != me))
  };
next:
  times++;
  if :: times < TIMES -> goto again :: else fi;
over:
  skip
}

#define DEAD_ENDS(k) d_step { holder[k] != 0 && dead[holder[k]] -> holder[k] = 0 }
#define LIVE_ENDS(k) d_step { holder[k] != 0 && !dead[holder[k]] && ends < ENDS -> ends++; holder[k] = 0 }

proctype world()
{
end:
  do
  :: DEAD_ENDS(0)
  :: DEAD_ENDS(1)
  :: DEAD_ENDS(2)
  :: LIVE_ENDS(0)
  :: LIVE_ENDS(1)
  :: LIVE_ENDS(2)
  :: timeout -> assert(stuck || (!waits[1] && !waits[2] && !waits[3])); break
  od
}

init { atomic { run world(); run process(1, 0, 1); run process(2, 1, 2); run process(3, 2, 0) } }
