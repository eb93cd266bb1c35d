/*
 * A model of pawl's append protocol (docs/protocol.md) for the model checker Spin. It tries every order of the steps of a few
 * workers, a producer, and requests that arrive late, up to small bounds, and checks after each step that matters:
 *
 *   - a message whose insert was acknowledged is in the file once, or still in the queue; in the queue no more once it is settled;
 *   - what was committed is never changed, moved or taken back, and the ledger's seq counts it;
 *   - messages of one producer are in the order in which it inserted them;
 *   - a worker that ends because the queue is empty leaves no message behind;
 *   - no worker stops for good: the storage is as it should be.
 *
 * tests/model/run runs it. By hand: spin -a append.pml && gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m100000 -w26
 *
 * What is modelled
 *
 *   lock           Not at all, on purpose: any worker may believe at any time that it has the lock. No lock can do worse. The
 *                  epoch alone keeps holders apart.
 *   pause          Between any two steps, of any length: longer than the lease, or for ever.
 *   crash          Wherever "goto idle" is a choice. All that the worker knew is gone; what it wrote and sent stays.
 *   deadline       After two thirds of the lease no new block and no delete is started. The model has no time, so this is
 *                  a choice wherever a holder reads the clock: "goto leave". A holder that has synced a block still commits it.
 *                  No holder has to leave: one whose clock stands still must do no harm either.
 *   fence          One step, because a fence that fails changes nothing: having read epoch e, it succeeds only if e is
 *                  still the epoch. For a roll, which brings its own e, the comparison is there.
 *                  Without an answer the ledger shows that it was done, but not whether the end was
 *                  clean.
 *   old answers    Of a primary that was replaced and does not know it: to each read that is not
 *                  linearizable. They may say that the epoch is still mine, so where nothing is cut
 *                  there is no such read here. The polls before the lock only make a worker try.
 *   ledger         Epoch, clean, guarded, the committed end (segment and messages in it: this stands for file, length and link), seq,
 *                  settled. A request may arrive at once, later, twice, or never; the answer may be lost (the worker then asks
 *                  again, which the ledger cannot tell from a late copy, or dies, or leaves). One such copy at a time.
 *   queue          A set of messages. A delete is one request a block, but is done message by message, and what is not yet
 *                  done may be done late. A pass is one snapshot, and may end early.
 *   ranges         With -DRANGES a delete may also be by the block's first and last, of what the
 *                  pass has seen: in one step, if it removes as many as it should.
 *   standalone     With -DSTANDALONE a pass is a plain cursor: it may miss what comes after it and
 *                  see what comes before it. The order is not checked.
 *   last poll      Of --exit-when-empty: a worker without the lock polls, and ends. (Then another
 *                  one is started.) What is linearizable is one step.
 *   first name     A worker without a segment to continue wants the name t1.bin. If a file of another epoch with more
 *                  than a header has that name, and the epoch is still the worker's, the worker stops (74).
 *   file           A list of messages a segment. A block is one or two messages and is committed as a whole.
 *   failed sync    All of the block may be there, or a part, or nothing. The epoch is abandoned (which then looks like a crash).
 *   CLOSE          A write at the committed end that is not a message. It takes no space here.
 *   roll           CLOSE, `clean: true`, the next epoch under the same lock, and a new segment for its first block.
 *   guard          With -DLOCAL the file system is local: the kernel's lock on the segment, given back by close and by death,
 *                  then the epoch is read again, then the cut. Without, it is a network file system, and `clean` alone decides.
 *                  With -DBOTH it is local to worker 1, and a network's to the others, who take no guard and see none.
 *   guarded        The epoch for which the end is vouched for. With -DOLDER the workers over the network are of an older pawl:
 *                  their fences do not change the number.
 *   adopt, lock    With -DTOOLS: pawl-setup --adopt, which vouches for nothing, and pawl-lock, which changes nothing but the epoch.
 *
 * What is not: bytes and pages (so no PAD), CRCs, other names of files and the check before the
 * lock (unit tests and the simulation have these); several types a worker, and one renewal for the
 * locks of many (they meet in the lock, which any worker may have here at any time); a transaction
 * that never ends (it only delays); a file that disagrees with the ledger; time; losing
 * writes that MongoDB acknowledged; pruning; more than two blocks that are committed and not
 * deleted (pawl: four). A late copy of a commit does not carry `settled`, which $max would make the
 * older value or a true one; the next holder then only settles more.
 *
 * What lies beyond the committed end when an epoch begins is forgotten in the model ("sweep"). No process may rely on it, and
 * a process that commits it without having written it in its own epoch is found out. This, and forgetting a late request of an
 * epoch that is over, which can match nothing, makes the model small. Three messages are the least that show a committed
 * byte changed in every case: with two, the late writer often writes what is there already.
 *
 * For a reader at majority, a write that is taken back before a majority has it was never done. So it
 * needs no state. Only a reader at local sees it: FENCELOCAL, COMMITLOCAL.
 *
 * Planted bugs, given to spin as -D, one at a time; each must be found, by an assertion that is its
 * own (tests/model/run names it):
 *
 *   SAMEFILE    an unclean file is continued on a network file system
 *   NOFENCE     a commit does not compare the epoch
 *   NOSETTLE    a new holder does not finish the deletes of the last holder
 *   NOLINK      a commit does not compare the end that it starts from
 *   CLEAN       a holder that wrote nothing says clean, whatever it found
 *   NOBARRIER   a pass begins before all deletes are acknowledged
 *   STALE       a pass sees an older snapshot
 *   EARLY       a message is deleted before its block is committed
 *   NOVERIFY    (with -DLOCAL) the epoch is not read again under the guard
 *   RESYNC      a sync that failed is tried again, and its success is believed
 *   ROLLOPEN    a roll whose fence did not come about goes on in the old epoch, after `clean: true` was sent
 *   ROLLCLEAN   the fence of a roll leaves `clean` true
 *   GIVEUP      at the deadline a holder drops a synced block whose commit it has sent, and leaves with CLOSE
 *   LATEWRITE   at the deadline a holder does not wait for a write that hangs, and leaves with `clean: true`
 *   UNLINK      at the deadline a new segment is unlinked although its commit has been sent
 *   AHEAD       `settled` counts a block whose delete is not acknowledged
 *   NOSNAPSHOT  a pass is a plain cursor: it may miss a message and see a later one of the same producer
 *   STALEREAD   (with -DLOCAL) the read before a cut is answered by a primary that was replaced
 *               (here the same as NOVERIFY)
 *   STALENAME   and the read after the name of the first segment was found taken
 *   EXITSTALE   and the last poll of --exit-when-empty
 *   EXITBLIND   there is no such poll: a pass that found nothing is enough
 *   EXITUNSETTLED  it leaves out what is committed and not yet deleted
 *   FENCELOCAL  a fence without an answer is judged by what one server has, and that is taken back
 *   COMMITLOCAL and a commit
 *   FENCECLEAN  a fence without an answer, which the ledger shows, has found a clean end
 *   FENCEOLD    (with -DLOCAL) it begins where the segment began, and not where it ends
 *   LATEREAD    what was read in one epoch is written in a later one
 *   RANGE       (with -DRANGES, as those that follow) a range delete is of what is there now, and
 *               done if it removes as many as it should
 *   RANGELATER  the same, and the count is not checked
 *   RANGESHIFT  it begins after the block's first and ends after its last
 *   RANGEWIDE   it ends after its last, and the count is not checked
 *   RANGEALONE  (with -DSTANDALONE) a standalone server is asked for ranges, and has no snapshot
 *   GUARDCOMMIT (with -DBOTH, as those that follow) no fence, but a commit over the network ends what is vouched for
 *   GUARDBOOL   vouched for once is vouched for, of whatever epoch (and -DOLDER)
 *   GUARDIGNORE a free guard is enough
 *   GUARDALWAYS a local fence vouches for any end
 *   NETKEEP     a fence over the network goes on vouching
 *   NETVOUCH    a commit over the network vouches
 *   ADOPTVOUCH  adopting does (and -DTOOLS)
 */
#ifndef W
#define W 2 /* workers */
#endif
#ifndef M
#define M 3 /* messages, at most 4: odd ones from one producer, even ones from another */
#endif
#ifndef E
#define E 3 /* epochs */
#endif
#ifndef FIRST
#define FIRST 1 /* the worker that begins: this matters only with -DBOTH */
#endif
#define L (M + 2) /* room in a segment: a block more than check() lets pass */

#if defined(LOCAL)
#define IS_LOCAL 1
#elif defined(BOTH)
#define IS_LOCAL (me == 1)
#else
#define IS_LOCAL 0
#endif
#ifdef NETVOUCH
#define VOUCHES 1
#else
#define VOUCHES IS_LOCAL
#endif
#ifdef GUARDBOOL
#define OLDER
#endif
#if defined(RANGE) || defined(RANGELATER) || defined(RANGEWIDE) || defined(RANGESHIFT)
#define RANGES
#endif
#ifdef RANGEALONE
#define STANDALONE
#endif

#define BIT(m) (1 << ((m) - 1))
#define LOW(set) ((set) & (-(set)))
#define SIZE(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1))
#define WITHOUT(set, gone) ((set) & (255 - (gone)))
#define UP_TO(set) ((set) | ((set) >> 1) | ((set) >> 2) | ((set) >> 3)) /* to its last */
#define BETWEEN(set) (UP_TO(set) & (255 - (LOW(set) - 1)))              /* from its first */

/* ---- what all processes share ---- */

byte sent, queued;                     /* sets of messages: acknowledged inserts; the queue */
byte epoch, seg, length, seq, settled; /* the ledger */
byte guarded;
bool clean;
typedef Segment {
  byte from;                           /* 0: it does not exist; 1: it is the first; s + 1: it goes on after segment s */
  byte from_length;                    /* and its committed length */
  byte message[L];                     /* 0: anything but a message */
};
Segment file[E + 2];                   /* segment e was made in epoch e; the last is FENCELOCAL's */
byte history[M + 1], history_length;   /* all that was ever committed, for check() */
#if defined(LOCAL) || defined(BOTH)
byte guard[W + 1];                     /* the segment a worker has open, guarded; 0: none */
#endif

/* On its way: a request to the ledger (what it compares, what it sets), and deletes. */
byte late_epoch, late_seg, late_length, late_to_seg, late_to_length, late_to_seq;
bool late_clean, late_vouches;
byte late_delete;
#ifdef LATEWRITE
byte hung, hung_seg, hung_length; /* a write that has not returned */
#endif

/* ---- what must hold ---- */

#define NOWHERE 255

/* Never set: each gives its name to what spin prints of an assertion, for tests/model/run. */
hidden byte hollow, doubled, miscounted, taken_back, changed, disordered, unsettled, lost;
hidden byte left_out, undeleted, stops;

hidden byte s_, n_, i_, k_, seen_, chain_[M + 1], keep_[E + 1];

/* chain_[0..n_-1]: what a reader sees from the ledger. keep_[s]: the committed length of each segment, if it is named. */
inline walk()
{
  s_ = 0;
  do :: s_ <= E -> keep_[s_] = NOWHERE; s_++ :: else -> break od;
  s_ = seg; i_ = length; n_ = 0;
  do
  :: s_ == 0 -> break
  :: else ->
     assert(hollow || file[s_].from != 0);                         /* named, and not there */
     keep_[s_] = i_; n_ = n_ + i_;
     i_ = file[s_].from_length; s_ = file[s_].from - 1
  od;
  assert(doubled || n_ <= M);                                      /* more than there are */
  s_ = seg; k_ = n_;
  do
  :: s_ == 0 -> break
  :: else ->
     i_ = keep_[s_];
     do :: i_ > 0 -> i_--; k_--; chain_[k_] = file[s_].message[i_] :: else -> break od;
     s_ = file[s_].from - 1
  od
}

inline check()                                                     /* part of the step that it follows */
{
  walk();
  assert(miscounted || (n_ == seq && settled <= seq));
  assert(taken_back || n_ >= history_length);
  seen_ = 0; i_ = 0;
  do
  :: i_ < n_ ->
     assert(changed || i_ >= history_length || history[i_] == chain_[i_]);
     assert(hollow || chain_[i_] != 0);                          /* committed, and not there */
     assert(doubled || (seen_ & BIT(chain_[i_])) == 0);
#ifndef STANDALONE
     assert(disordered || chain_[i_] <= 2 || (seen_ & BIT(chain_[i_] - 2)));  /* one producer's */
#endif
     assert(unsettled || i_ >= settled || !(queued & BIT(chain_[i_])));
     seen_ = seen_ | BIT(chain_[i_]);
     history[i_] = chain_[i_]; i_++
  :: else -> break
  od;
  history_length = n_;
  assert(lost || WITHOUT(sent, queued | seen_) == 0);
  s_ = 0; n_ = 0; i_ = 0; k_ = 0; seen_ = 0
}

/* A new epoch: what is not committed is forgotten. */
inline sweep()
{
  walk();
  s_ = 1;
  do
  :: s_ <= E ->
     if
     :: keep_[s_] == NOWHERE -> i_ = 0; file[s_].from = 0; file[s_].from_length = 0
     :: else -> i_ = keep_[s_]
     fi;
     do :: i_ < L -> file[s_].message[i_] = 0; i_++ :: else -> break od;
     s_++
  :: else -> break
  od;
  s_ = 0; n_ = 0; i_ = 0; k_ = 0
}

/* ---- requests ---- */

#ifdef NOFENCE
#define MATCHES(of, s, n, to_s, to_n) ((seg == (s) && length == (n)) || (seg == (to_s) && length == (to_n)))
#elif defined(NOLINK)
#define MATCHES(of, s, n, to_s, to_n) (epoch == (of))
#else
#define MATCHES(of, s, n, to_s, to_n) (epoch == (of) && ((seg == (s) && length == (n)) || (seg == (to_s) && length == (to_n))))
#endif

/* The ledger does what matched: the end moves, `clean` becomes true if that was asked for, and it vouches for the end if the writer does. */
inline advance(to_s, to_n, to_seq, to_clean, vouches)
{
  seg = to_s; length = to_n; seq = to_seq;
  if :: to_clean -> clean = true :: else fi;
#ifdef GUARDCOMMIT
  if :: vouches -> guarded = epoch :: else -> guarded = 0 fi
#else
  if :: vouches -> guarded = epoch :: else fi
#endif
}

/* A copy of the request that a worker is about to send stays on its way. */
inline linger(to_s, to_n, to_seq, to_clean)
{
  late_epoch == 0 ->
  late_epoch = e; late_vouches = VOUCHES && (wrote || !(to_clean)); late_seg = my_seg; late_length = my_length;
  late_to_seg = to_s; late_to_length = to_n; late_to_seq = to_seq; late_clean = to_clean
}
inline linger_perhaps(to_s, to_n, to_seq, to_clean)
{
  if
  :: linger(to_s, to_n, to_seq, to_clean)
  :: true
  fi
}

inline linger_no_more()
{
  late_epoch = 0; late_seg = 0; late_length = 0; late_to_seg = 0; late_to_length = 0; late_to_seq = 0; late_clean = false;
  late_vouches = false
}

inline settle_up_to(n)                                             /* $max */
{
  if :: settled < (n) -> settled = n :: else fi
}

inline remove(set)                                                 /* from the queue: no _id comes back, so a late copy finds nothing */
{
  queued = WITHOUT(queued, set); late_delete = late_delete & queued
}

/* ---- a worker ---- */

/* The last poll of --exit-when-empty. An old answer: it was empty, if only at the beginning. */
#ifdef EXITSTALE
#define LOOKS_EMPTY true
#elif defined(EXITBLIND)
#define LOOKS_EMPTY saw_empty
#else
#define LOOKS_EMPTY (queued == 0)
#endif
inline say_empty()
{
  assert(left_out || SIZE(sent) == seq);                         /* acknowledged, not in the file */
  assert(undeleted || queued == 0)                               /* or in both */
}

inline put(set)                                                    /* the bytes of a block, at the committed end */
{
  assert(my_length + SIZE(set) <= L);
  i_ = my_length; k_ = 1;
  do
  :: k_ <= M ->
     if :: (set) & BIT(k_) -> file[my_seg].message[i_] = k_; i_++ :: else fi;
     k_++
  :: else -> break
  od;
  i_ = 0; k_ = 0
}

inline cut()                                                       /* what is beyond the committed end */
{
  i_ = my_length;
  do :: i_ < L -> file[my_seg].message[i_] = 0; i_++ :: else -> break od;
  i_ = 0
}

/* What the fence makes of `guarded`. An older pawl's leaves it as it is. */
inline fence_guarded()
{
  if
#ifdef GUARDALWAYS
  :: IS_LOCAL -> guarded = epoch
#endif
#ifdef GUARDCOMMIT
  :: was_vouched -> guarded = epoch
#endif
#ifdef NETKEEP
  :: !IS_LOCAL && was_vouched -> guarded = epoch
#endif
#ifdef OLDER
  :: !IS_LOCAL -> skip
#endif
  :: IS_LOCAL && (was_clean || was_vouched) -> guarded = epoch
  :: else -> guarded = 0
  fi
}

inline know_the_end()
{
  my_seg = seg; my_length = length; my_seq = seq; was_clean = clean;
#ifdef GUARDBOOL
  was_vouched = guarded != 0;
#else
  was_vouched = guarded != 0 && guarded == epoch;
#endif
  wrote = false; begun = false; block = 0; second = 0;
#ifdef EXITBLIND
  saw_empty = false;
#endif
#ifndef LATEREAD
  todo = 0;
#endif
  /* what the last holder committed and perhaps did not delete */
  walk();
  first = 0; i_ = settled;
#ifndef NOSETTLE
  do :: i_ < n_ -> first = first | BIT(chain_[i_]); i_++ :: else -> break od;
#endif
}

inline begin_epoch()
{
  know_the_end();
  epoch++; e = epoch;
  fence_guarded();
#ifdef GUARDIGNORE
  was_vouched = true;
#endif
#ifdef ROLLCLEAN
  clean = clean && rolling;
#else
  clean = false;
#endif
#ifndef NOFENCE
  linger_no_more();                                                /* it was of an epoch that is over: it can match nothing */
#endif
  sweep()
}

/* The fence had no answer. The ledger shows that it was done, but not whether the end was clean. */
inline begin_epoch_unanswered()
{
  begin_epoch();
#ifdef FENCECLEAN
  was_clean = true
#else
  was_clean = false; was_vouched = guarded == epoch
#endif
#ifdef FENCEOLD
  ; if :: seg != 0 && seg == epoch - 1 -> my_seq = my_seq - my_length; my_length = 0 :: else fi
#endif
}

inline forget()                                                    /* crashed, or done with the epoch */
{
  e = 0; my_seg = 0; my_length = 0; my_seq = 0; block = 0; first = 0; second = 0;
  was_clean = false; was_vouched = false; wrote = false; begun = false; rolling = false
#ifndef LATEREAD
  ; todo = 0
#endif
#ifdef RANGES
  ; snapshot = 0
#endif
#if defined(LOCAL) || defined(BOTH)
  ; guard[me] = 0
#endif
}

#if defined(LOCAL) || defined(BOTH)
#define OPEN(s) guard[me] = (IS_LOCAL -> (s) : 0)
#define IS_GUARDED_BY_ANOTHER(s) \
  ((guard[1] == (s) && me != 1) || (guard[2] == (s) && me != 2) || (guard[W] == (s) && me != W))
#if W < 2 || W > 3
#error "two or three workers"
#endif
#else
#define OPEN(s) skip
#endif
#define CLOSED OPEN(0)

/* No longer than it should be. It may be longer all the same: sweep() forgets what may be there. */
#define IS_EXACT (file[my_seg].message[my_length] == 0)
/* Is the epoch mine? Linearizable; an old answer may say so for ever. */
#ifdef STALEREAD
#define IS_MINE_BEFORE_CUT true
#else
#define IS_MINE_BEFORE_CUT (epoch == e)
#endif

/* The name of the first segment, t1.bin, is taken by more than a header, of another epoch. */
#define IS_FIRST_OF_ANOTHER(s) ((s) != e && file[s].from == 1 && file[s].message[0] != 0)
#define IS_TAKEN (my_seg == 0 && \
  (IS_FIRST_OF_ANOTHER(2) || IS_FIRST_OF_ANOTHER(E - 1) || IS_FIRST_OF_ANOTHER(E)))
#ifdef STALENAME
#define IS_MINE_BEFORE_STOP true
#else
#define IS_MINE_BEFORE_STOP (epoch == e)
#endif

/* What a delete by range removes; and whether its transaction is committed. */
#if defined(RANGELATER) || defined(RANGE)
#define IN_RANGE(set) (BETWEEN(set) & queued)
#elif defined(RANGEWIDE)
#define IN_RANGE(set) (BETWEEN((set) | (UP_TO(set) + 1)) & snapshot & queued)
#elif defined(RANGESHIFT)
#define IN_RANGE(set) (WITHOUT(BETWEEN((set) | (UP_TO(set) + 1)), LOW(set)) & snapshot & queued)
#else
#define IN_RANGE(set) (BETWEEN(set) & snapshot & queued)
#endif
#if defined(RANGELATER) || defined(RANGEWIDE)
#define COUNTS(set) true
#else
#define COUNTS(set) (SIZE(IN_RANGE(set)) == SIZE(set))
#endif

#define CONTINUED (!begun && !rolling && my_seg != 0)

#ifdef NOBARRIER
#define MAY_BEGIN_PASS (todo == 0)
#else
#define MAY_BEGIN_PASS (todo == 0 && first == 0)
#endif

#ifdef STALE
#define NOW (queued | (sent & BIT(1)))
#else
#define NOW queued
#endif

#ifdef AHEAD
#define ACKNOWLEDGED (my_seq + SIZE(block))
#else
#define ACKNOWLEDGED (my_seq - SIZE(first | second))
#endif

proctype worker(byte me)
{
  byte e, my_seg, my_length, my_seq;                               /* my epoch; the committed end as I know it */
  byte todo, block;                                                /* read in this pass and not written; the block in hand */
  byte first, second;                                              /* committed and not known to be deleted: two blocks at most */
  bool was_clean, was_vouched, wrote, begun, rolling;
#ifdef RANGES
  byte snapshot;                                                   /* what the pass sees */
#endif
#ifdef EXITBLIND
  bool saw_empty;
#endif

idle:
  atomic { forget() }
  if
  :: d_step { LOOKS_EMPTY -> say_empty() } goto idle               /* --exit-when-empty */
  :: d_step { epoch < E && (me == FIRST || epoch > 0) -> begin_epoch(); check() }
  :: d_step { epoch < E && (me == FIRST || epoch > 0) -> begin_epoch_unanswered(); check() }
#ifdef FENCELOCAL
  /* no answer; one server has it, and it is taken back: nothing matches this epoch and owner */
  :: d_step { epoch < E && (me == FIRST || epoch > 0) -> know_the_end(); e = E + 1 }
#endif
  :: epoch == E -> goto done
  fi;

settle:
  if
  :: goto idle
  :: goto leave
  :: first == 0 -> goto drain
  :: d_step { first != 0 -> remove(first); check() }
  :: d_step { WITHOUT(first & queued, late_delete) != 0 -> late_delete = late_delete | (first & queued) } goto settle  /* no answer */
  fi;
  if
  :: goto idle
  :: goto leave
  :: d_step { epoch == e -> first = 0; settle_up_to(my_seq); check() }
  :: epoch != e -> goto idle
  fi;

drain:
  if
  :: goto idle
  :: goto leave                                                    /* nothing more to do, asked to stop, the deadline, or large enough */
  :: d_step { first != 0 -> remove(first); first = second; second = 0; check() } goto drain
  :: d_step { WITHOUT(first & queued, late_delete) != 0 -> late_delete = late_delete | (first & queued) } goto drain   /* no answer */
#ifdef RANGES
  :: d_step { first != 0 && COUNTS(first) ->
       remove(IN_RANGE(first)); first = second; second = 0; check() } goto drain
  :: d_step { MAY_BEGIN_PASS && queued != 0 -> todo = NOW; snapshot = todo } goto drain
#else
  :: d_step { MAY_BEGIN_PASS && queued != 0 -> todo = NOW } goto drain
#endif
#ifdef STANDALONE
  /* what came after the cursor's position, and before it */
  :: d_step { SIZE(todo) > 1 -> todo = WITHOUT(todo, LOW(todo)) } goto drain
  :: d_step { todo != 0 && WITHOUT(queued, UP_TO(todo)) != 0 ->
       todo = todo | WITHOUT(queued, UP_TO(todo)) } goto drain
#endif
#ifdef RANGEALONE
  :: d_step { first != 0 -> remove(BETWEEN(first)); first = second; second = 0; check() } goto drain
#endif
#ifdef EXITBLIND
  :: d_step { MAY_BEGIN_PASS && queued == 0 -> saw_empty = true } goto idle
#endif
#ifdef EXITUNSETTLED
  :: d_step { WITHOUT(queued, first | second) == 0 -> say_empty() } goto idle
#endif
#ifdef NOSNAPSHOT
  :: d_step { MAY_BEGIN_PASS && queued != 0 -> todo = WITHOUT(queued, LOW(queued)) } goto drain
#endif
  :: todo != 0 -> todo = 0; goto drain                             /* the pass ended early */
  :: d_step { todo != 0 && second == 0 -> block = LOW(todo); todo = WITHOUT(todo, block) }
  :: d_step { SIZE(todo) > 1 && second == 0 ->
       block = LOW(todo); todo = WITHOUT(todo, block); block = block | LOW(todo); todo = WITHOUT(todo, block) }
  fi;

  /* The first block of the epoch: may the file be continued? */
  if
  :: begun -> goto append
  :: !begun && (rolling || my_seg == 0) -> goto create
#if defined(LOCAL) || defined(BOTH)
  :: d_step { CONTINUED && IS_LOCAL && !IS_GUARDED_BY_ANOTHER(my_seg) && was_vouched ->
       OPEN(my_seg) }
  /* nothing is to be cut: an old answer that the epoch is mine will do, so there is no read here */
  :: d_step { CONTINUED && IS_LOCAL && !IS_GUARDED_BY_ANOTHER(my_seg) && IS_EXACT &&
       (was_vouched || was_clean) -> OPEN(my_seg); begun = true } goto append
  :: CONTINUED && IS_LOCAL && !was_vouched && was_clean && !IS_EXACT -> goto create
  :: CONTINUED && IS_LOCAL && (IS_GUARDED_BY_ANOTHER(my_seg) || !(was_vouched || was_clean)) -> goto create
#endif
#ifndef LOCAL
#ifdef SAMEFILE
  :: CONTINUED && !IS_LOCAL -> begun = true; goto append
#else
  :: CONTINUED && !IS_LOCAL && was_clean -> begun = true; goto append
  :: CONTINUED && !IS_LOCAL && !was_clean -> goto create
#endif
#endif
  fi;
#if defined(LOCAL) || defined(BOTH)
#ifndef NOVERIFY
  if
  :: goto idle
  :: goto leave
  :: IS_MINE_BEFORE_CUT
  :: epoch != e -> goto idle
  fi;
#endif
  if
  :: goto idle
  :: goto leave
  :: d_step { true -> cut(); begun = true; check() } goto append
  fi;
#endif

create:
  if
  :: goto idle
  :: goto leave
  :: d_step { IS_TAKEN && IS_MINE_BEFORE_STOP -> assert(stops || false) }            /* 74 */
  :: d_step { true -> file[e].from = my_seg + 1; file[e].from_length = my_length; OPEN(e) }
  fi;
  if
  :: goto idle
  :: d_step { true -> file[e].from = 0; file[e].from_length = 0 } goto leave     /* its commit was never sent: unlinked */
  :: was_clean -> was_clean = false; goto leave                    /* it could not be unlinked: the end stays unclean */
  :: atomic { linger(e, 0, my_seq, false); goto idle }
#ifdef UNLINK
  :: d_step { linger(e, 0, my_seq, false); file[e].from = 0; file[e].from_length = 0 } goto leave
#endif
  :: atomic {
       linger_perhaps(e, 0, my_seq, false);
       if
       :: MATCHES(e, my_seg, my_length, e, 0) -> advance(e, 0, my_seq, false, VOUCHES)
       :: else -> goto idle
       fi;
       my_seg = e; my_length = 0; begun = true; d_step { check() }
     }
  fi;

append:
  if
  :: goto idle
  :: goto leave
  :: d_step { true -> put(block); wrote = true
#ifdef EARLY
       ; remove(block)
#endif
       ; check() }
  :: atomic {                                                      /* the sync failed */
       if
       :: true                                                     /* nothing is there */
       :: SIZE(block) > 1 -> put(LOW(block))                       /* a part is */
       :: put(block)                                               /* all is */
       fi;
       d_step { check() }
#ifdef RESYNC
       wrote = true
#else
       goto idle
#endif
     }
#ifdef LATEWRITE
  :: d_step { hung == 0 -> hung = block; hung_seg = my_seg; hung_length = my_length } goto leave
#endif
  fi;

commit:                                                            /* also after the deadline */
  if
  :: goto idle
  :: atomic { linger(my_seg, my_length + SIZE(block), my_seq + SIZE(block), false); goto idle }
#ifdef GIVEUP
  :: d_step { linger(my_seg, my_length + SIZE(block), my_seq + SIZE(block), false) } goto leave
#endif
  :: atomic {
       linger_perhaps(my_seg, my_length + SIZE(block), my_seq + SIZE(block), false);
       if
       :: MATCHES(e, my_seg, my_length, my_seg, my_length + SIZE(block)) ->
          advance(my_seg, my_length + SIZE(block), my_seq + SIZE(block), false, VOUCHES);
          settle_up_to(ACKNOWLEDGED)
       :: else -> goto idle
       fi;
       my_length = my_length + SIZE(block); my_seq = my_seq + SIZE(block);
       if :: first == 0 -> first = block :: else -> second = block fi;
       block = 0; d_step { check() } goto drain
     }
#ifdef COMMITLOCAL
  /* no answer; one server has it, and it is taken back */
  :: atomic {
       my_length = my_length + SIZE(block); my_seq = my_seq + SIZE(block);
       if :: first == 0 -> first = block :: else -> second = block fi;
       block = 0; goto drain
     }
#endif
  fi;

leave:                                                             /* by step 5: CLOSE, if a block was written */
#ifdef LATEREAD
  atomic { block = 0 }
#else
  atomic { todo = 0; block = 0 }
#endif
  if
  :: goto idle
  :: d_step { wrote -> file[my_seg].message[my_length] = 0; CLOSED; check() }
#ifdef CLEAN
  :: d_step { !wrote -> CLOSED }
#else
  :: d_step { !wrote && was_clean -> CLOSED }
  :: !wrote && !was_clean -> goto idle
#endif
  fi;
  if
  :: goto idle
  :: atomic { linger(my_seg, my_length, my_seq, true); goto idle } /* sent: the epoch is over, whatever the answer */
  :: atomic {
       linger_perhaps(my_seg, my_length, my_seq, true);
       if
       :: MATCHES(e, my_seg, my_length, my_seg, my_length) -> advance(my_seg, my_length, my_seq, true, VOUCHES && wrote); settle_up_to(ACKNOWLEDGED)
       :: else -> goto idle
       fi;
       d_step { check() }
       if
       :: goto idle
       :: wrote
       fi
     }
  fi;

  /* A roll: the next epoch, under the same lock. */
  if
  :: goto idle
  :: d_step { epoch == e && e < E -> rolling = true; begin_epoch(); check() } goto settle
  :: epoch != e || e == E ->
#ifdef ROLLOPEN
     goto drain
#else
     goto idle
#endif
  fi;

done:
  atomic { forget() }
}

/* ---- producers, and what arrives late ---- */

inline insert(m)
{
  d_step { !(sent & BIT(m)) && (m <= 2 || sent & BIT(m - 2)) -> sent = sent | BIT(m); queued = queued | BIT(m) }
}

inline late_remove(m)
{
  d_step { late_delete & BIT(m) -> remove(BIT(m)); check() }
}

proctype world()
{
end:
  do
  :: insert(1)
  :: late_remove(1)
#if M > 1
  :: insert(2)
  :: late_remove(2)
#endif
#if M > 2
  :: insert(3)
  :: late_remove(3)
#endif
#if M > 3
  :: insert(4)
  :: late_remove(4)
#endif
#ifdef TOOLS
  :: d_step { epoch < E && seg != 0 -> epoch++; clean = false; linger_no_more();   /* adopted */
#ifdef ADOPTVOUCH
       guarded = epoch
#else
       guarded = 0
#endif
       ; check() }
  :: d_step { epoch < E && seg != 0 -> epoch++; linger_no_more();                  /* pawl-lock */
       if :: guarded != 0 && guarded == epoch - 1 -> guarded = epoch :: else -> guarded = 0 fi;
       check() }
#endif
  :: d_step { late_epoch != 0 ->
       if
       :: MATCHES(late_epoch, late_seg, late_length, late_to_seg, late_to_length) ->
          advance(late_to_seg, late_to_length, late_to_seq, late_clean, late_vouches)
       :: else
       fi;
       linger_no_more(); check() }
#ifdef LATEWRITE
  :: d_step { hung != 0 -> i_ = hung_length; k_ = 1;
       do :: k_ <= M -> if :: hung & BIT(k_) -> file[hung_seg].message[i_] = k_; i_++ :: else fi; k_++ :: else -> break od;
       hung = 0; hung_seg = 0; hung_length = 0; i_ = 0; k_ = 0; check() }
#endif
  od
}

init { atomic { byte i; run world(); for (i : 1 .. W) { run worker(i) } } }
