/* Two learners change the priority of one row (U1 to U3, T5) while an explorer overwrites the row. The second learner
 * joins later. At the end, both must know the same priority. There is one slot, so a journal entry need not name it. */
#define CAPACITY 1
#ifndef EXPLORERS
#define EXPLORERS 1
#endif
#define REGISTRATIONS 1
#ifndef COUNT
#define COUNT 2 /* learners that run: one updates the row, one joins later, the third only reads */
#endif
#ifndef FIRST_UPDATES
#define FIRST_UPDATES 1
#endif
#ifndef LATER_UPDATES
#define LATER_UPDATES 0
#endif
#ifndef LEARNERS_BEFORE
#define LEARNERS_BEFORE 1 /* learners that have a place at the start; with COUNT 2 the second never runs, as if dead */
#endif
#ifndef BATCH
#define BATCH 0 /* a learner takes journal numbers for all its updates at once */
#endif
#ifndef DEAF
#define DEAF 0 /* learners that update do not catch up, which reduces the number of states */
#endif
#include "learner.pml"

/* An entry: its round, from 1, and whether the update is done. */
#ifndef ENTRIES
#define ENTRIES 2
#endif
#define ENTRY(number, done) (((number) / ENTRIES + 1) << 1 | (done))
#define round_of(e) ((e) >> 1)
#define is_done(e) ((e) & 1)
#define is_old(number, end) ((end) > (number) + ENTRIES / 2)

byte entry[ENTRIES];
byte journal; /* the number of the next entry */
byte place[3]; /* per learner: how far it has read, + 1; 0 if it has no place */
byte updated; /* the number of learners that have made all their updates */

#define HAS_OTHERS (me != 0 && place[0] != 0 || me != 1 && place[1] != 0 || me != 2 && place[2] != 0)

/* Evict a learner that is so far behind that it must look at every slot anyway. */
#define PASS_OVER(p) \
  if :: p != me && place[p] != 0 && is_old(place[p] - 1, journal) -> place[p] = 0 :: else fi

#define TAKE_NUMBERS(count) \
  atomic { \
    number = journal; journal = journal + count; assert(journal < 16); \
    if :: read == number -> read = journal :: else fi \
  } \
  atomic { PASS_OVER(0); PASS_OVER(1); PASS_OVER(2) }

/* If the entry is from a later round, the learner was overtaken and takes another number. */
#define WRITE_ENTRY(done) \
  do \
  :: e = entry[number % ENTRIES]; \
     atomic { \
       if \
       :: PLAIN_STORES || entry[number % ENTRIES] == e && round_of(e) <= number / ENTRIES + 1 -> \
          entry[number % ENTRIES] = ENTRY(number, done); \
          e = 0; \
          break \
       :: else \
       fi \
     } \
     TAKE_NUMBERS(1) \
  od

/* U1 */
#define ANNOUNCE if :: others -> WRITE_ENTRY(false) :: else fi
#define MAY_DIE if :: KILLS -> updated++; goto killed :: skip fi

/* With more than two updates, each writes a different value than the previous one. */
#define VALUE (FIRST_UPDATES > 2 && updates % 2 == 0 -> 1 : value)

/* U2: compare-and-swap, if the low bits are still those of the sampled row. */
#define CHANGE \
  do \
  :: p = prio[0]; \
     if \
     :: row_of_priority(p) != row_of_priority(leaf[0]) && !NO_LOW_BITS -> p = 0; break \
     :: else \
     fi; \
     atomic { \
       if \
       :: prio[0] == p || NO_CAS -> \
          assert(row_of_priority(prio[0]) == row_of_priority(leaf[0])); \
          prio[0] = PRIORITY(row_of_priority(leaf[0]), VALUE); \
          leaf[0] = prio[0]; \
          p = 0; changed = true; \
          break \
       :: else \
       fi \
     } \
  od

/* U3 */
#define SAY_DONE \
  atomic { \
    if \
    :: others && (PLAIN_STORES || entry[number % ENTRIES] == ENTRY(number, false)) -> \
       entry[number % ENTRIES] = ENTRY(number, true) \
    :: others && !(PLAIN_STORES || entry[number % ENTRIES] == ENTRY(number, false)) -> overtaken = true \
    :: else \
    fi \
  }

/* After the last update: write a new entry if any entry became old before its update was done. The first entry is the
 * oldest. */
#define SAY_AGAIN \
  if :: others && changed && !NO_AGAIN && (overtaken || is_old(first, journal)) -> TAKE_NUMBERS(1); WRITE_ENTRY(true) :: else fi; \
  if \
  :: !others && changed && !WEAK_U2 -> \
     others = HAS_OTHERS; \
     if :: others -> TAKE_NUMBERS(1); WRITE_ENTRY(true) :: else fi \
  :: else \
  fi

proctype learner(byte me; byte value; byte updates; bool late) {
  byte leaf[CAPACITY], remembered[REGISTRATIONS];
  byte last, h, k, c, r, w, p;
  byte read, mine, number, first, nth, count, end, e;
  int waiting; /* a bit for each entry that is not yet done */
  bool look, final, others, changed, overtaken;

  if :: late -> mine = 255 :: else -> mine = 1 fi;
  if :: updates == 0 -> updated++ :: else fi;
  if :: DEAF && updates > 0 -> leaf[0] = PRIORITY(0, 1); if :: late -> place[me] = 1 :: else fi; goto U1 :: else fi;
T1:
  atomic { updates == 0 || leaf[0] == NO_LEAF -> final = updated == COUNT && finished == EXPLORERS }
  if
  :: place[me] != mine && !(NO_REJOIN && mine != 255) -> /* new or evicted: it must read everything */
     atomic {
       end = journal;
       read = (FROM_THE_END -> end : (end > ENTRIES / 2 -> end - ENTRIES / 2 : 0));
       mine = 1 + read; end = 0
     }
     place[me] = mine;
     atomic { last = 0; waiting = 0; remembered[0] = NONE }
  :: else
  fi;
  CATCH_UP;
T5:
#if WEAK_T5 /* the priority is loaded before the entries are */
  w = word[0];
  p = prio[0];
#endif
  end = journal;
  atomic { look = is_old(read, end); if :: look -> read = end - ENTRIES / 2 :: else fi; number = 0 }
  do
  :: number < end ->
     if
     :: number >= read || waiting >> number & 1 ->
        e = entry[number % ENTRIES];
        atomic {
          waiting = waiting & ~(1 << number);
          if
          :: round_of(e) == number / ENTRIES + 1 -> look = true
          :: else
          fi;
          if
          :: is_old(number, end) || round_of(e) == number / ENTRIES + 1 && (is_done(e) || NO_WAITING)
          :: else -> waiting = waiting | 1 << number
          fi;
          e = 0
        }
     :: else
     fi;
     number++
  :: else -> atomic { read = (end > read -> end : read); end = 0; number = 0; break }
  od;
#if WEAK_T5
  atomic { if :: look -> leaf[0] = (is_written(w) && row_of_priority(p) == row_of(w) -> p : NO_LEAF) :: else fi; w = 0; p = 0 }
  look = false;
#else
  if :: look -> look = false; r = 0; LOOK_AT_ROWS(1) :: else fi;
#endif

  atomic { if :: place[me] == mine -> mine = 1 + read; place[me] = mine :: else fi }

U1:
  do
  :: updates > 0 && leaf[0] != NO_LEAF ->
     others = HAS_OTHERS;
     count = (BATCH -> updates : 1);
     if :: others -> TAKE_NUMBERS(count); first = number :: else fi;
     do
     :: nth < count ->
#if WEAK_U1
        CHANGE;
        MAY_DIE;
        ANNOUNCE;
        SAY_DONE;
#else
        ANNOUNCE;
        ORDER(WEAK_U3, CHANGE; MAY_DIE, SAY_DONE);
#endif
        atomic {
          nth++; updates--;
          if :: others -> number = first + nth :: else fi
        }
     :: else -> break
     od;
     SAY_AGAIN;
     atomic {
       number = 0; first = 0; nth = 0; count = 0; others = false; changed = false; overtaken = false;
       if :: updates == 0 -> updated++ :: else fi
     }
  :: else -> break
  od;
  if
  :: DEAF && value != 1
  :: !(DEAF && value != 1) && final -> atomic { CHECK_LEAVES }
  :: else -> goto T1
  fi;
killed:
  skip
}

init {
  atomic {
#if EXPLORERS
    run explorer(ROWS);
#else
    head = 1; word[0] = WRITTEN(0); prio[0] = PRIORITY(0, 1);
#endif
    place[0] = 1;
    if :: LEARNERS_BEFORE > 1 -> place[2] = 1 :: else fi;
    run learner(0, 2, FIRST_UPDATES, false);
    run learner(1, 3, LATER_UPDATES, true);
#if COUNT > 2
    run learner(2, 1, 0, false)
#endif
  }
}
