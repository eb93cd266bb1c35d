/*
 * A model of locks of a program's own documents for the model checker Spin: processes that lock one of two documents in place, by a query
 * that both match, and write to it, while requests arrive late.
 *
 *   one         a process that relies on a lock has locked one document only;
 *   rises       each take of a document has a token above all that it ever had;
 *   refused     what is written to a document after a write with a higher token has no lower one;
 *   mine        a write that is acknowledged is of the one who has the document.
 *
 * tests/model/run documents runs it.
 *
 * What is modelled
 *
 *   document    The owner, whether its time is over, the token, and the token of the last write to its data.
 *   take        One request: the first document without an owner, or whose time is over, or whose owner is mine. It may be done and not
 *               answered, or done later and not answered (-DLATES). Then the process draws a new owner, and takes again.
 *   write       One request, by owner and token. It may be done later, too.
 *   release     One request: the owner goes, the token stays.
 *   time        Ends at any moment, of the living, too (-DFREEZES).
 *
 * Planted bugs: TOKENGONE: the token goes with the release. SAMEOWNER: a take without an answer is repeated with the same owner. WRITEANY: a
 * write names the document alone. STEALANY: a take does not
 * look at the time.
 */
#ifndef TIMES
#define TIMES 2 /* takes of each of two processes */
#endif
#ifndef FREEZES
#define FREEZES 1
#endif
#ifndef LATES
#define LATES 1
#endif

#define TAKE 1
#define WRITE 2
#define RELEASE 3

byte owner[2], token[2], written[2], greatest[2];
bool over[2];
byte owners; /* drawn so far */
byte freezes, lates, late, late_owner, late_at, late_token;
byte current[3]; /* the owner of the take that process relies on; 0: of none */
hidden byte one, rises, refused, mine, i_;

#ifdef STEALANY
#define MATCHES(d, o) true
#else
#define MATCHES(d, o) (owner[d] == 0 || over[d] || owner[d] == (o))
#endif

/* got: the document, 2: none. */
inline do_take(o)
{
  got = (MATCHES(0, o) -> 0 : (MATCHES(1, o) -> 1 : 2));
  if
  :: got < 2 ->
     assert(one || ((current[1] == 0 || current[1] != owner[got] || over[got]) && (current[2] == 0 || current[2] != owner[got] || over[got])));
     owner[got] = (o);
     over[got] = false;
     token[got]++;
     assert(rises || token[got] > greatest[got]);
     greatest[got] = token[got]
  :: else
  fi;
  i_ = 1;
  do
  :: i_ <= 2 -> assert(one || current[i_] == 0 || owner[0] != current[i_] || owner[1] != current[i_]); i_++
  :: else -> break
  od;
  i_ = 0
}

#ifdef WRITEANY
#define WRITES(d, o, t) true
#else
#define WRITES(d, o, t) (owner[d] == (o) && token[d] == (t))
#endif

inline do_write(d, o, t)
{
  done = false;
  if
  :: WRITES(d, o, t) ->
     assert(refused || t >= written[d]);
     written[d] = t;
     done = true
  :: else
  fi
}

inline do_release(d, o)
{
  if
  :: owner[d] == (o) ->
     owner[d] = 0;
     over[d] = false;
#ifdef TOKENGONE
     token[d] = 0
#endif
  :: else
  fi
}

inline draw()
{
#ifdef SAMEOWNER
  me_now = me
#else
  owners++;
  me_now = owners
#endif
}

#define LINGER(what, o, d, t) lates++; late = what; late_owner = o; late_at = d; late_token = t
#define MAY_BE_LATE (lates < LATES && late == 0)

proctype process(byte me)
{
  byte times, me_now, got, t;
  bool done;
again:
  true;
  d_step { draw() };
take:
  if
  :: d_step { MATCHES(0, me_now) || MATCHES(1, me_now) -> do_take(me_now); t = token[got]; current[me] = me_now }
  :: d_step { MAY_BE_LATE -> LINGER(TAKE, me_now, 0, 0); got = 2 }
#ifdef SAMEOWNER
     goto take
#else
     goto again
#endif
  fi;
  if
  :: d_step { true -> do_write(got, me_now, t); assert(mine || !done || owner[got] == me_now) }
  :: d_step { MAY_BE_LATE -> LINGER(WRITE, me_now, got, t) }
  :: true
  fi;
  if
  :: d_step { true -> current[me] = 0; do_release(got, me_now) }
  :: d_step { MAY_BE_LATE -> current[me] = 0; LINGER(RELEASE, me_now, got, 0) }
  fi;
  times++;
  if :: times < TIMES -> goto again :: else fi
}

proctype world()
{
  byte got;
  bool done;
end:
  do
  :: d_step { owner[0] != 0 && !over[0] && freezes < FREEZES -> freezes++; over[0] = true }
  :: d_step { owner[1] != 0 && !over[1] && freezes < FREEZES -> freezes++; over[1] = true }
  :: d_step { late == TAKE -> do_take(late_owner); late = 0; late_owner = 0; got = 0 }
  :: d_step { late == WRITE -> do_write(late_at, late_owner, late_token); late = 0; late_owner = 0; late_at = 0; late_token = 0; done = false }
  :: d_step { late == RELEASE -> do_release(late_at, late_owner); late = 0; late_owner = 0; late_at = 0 }
  od
}

init { atomic { run world(); run process(1); run process(2) } }
