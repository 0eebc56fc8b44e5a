/* Two learners that change the priority of one row (U1 to U3, T5), the second of which comes later, while an explorer
 * writes over it: in the end both know the same. One slot, so that an entry of the journal need not say which. */
#define CAPACITY 1
#ifndef EXPLORERS
#define EXPLORERS 1
#endif
#define SEATS 1
#ifndef COUNT
#define COUNT 2 /* learners that run: one changes the row, one comes later, the third only looks */
#endif
#ifndef FIRST_UPDATES
#define FIRST_UPDATES 1
#endif
#ifndef LATER_UPDATES
#define LATER_UPDATES 0
#endif
#ifndef LEARNERS_BEFORE
#define LEARNERS_BEFORE 1 /* that are counted: 2 with one that died or that is not run */
#endif
#ifndef DEAF
#define DEAF 0 /* who changes the row does not catch up: fewer states */
#endif
#include "learner.pml"

/* An entry: its round from 1 on, and whether the change is done. */
#define ENTRIES 2
#define ENTRY(number, done) (((number) / ENTRIES + 1) << 1 | (done))
#define round_of(e) ((e) >> 1)
#define is_done(e) ((e) & 1)
#define is_old(number, end) ((end) > (number) + ENTRIES / 2)

byte entry[ENTRIES];
byte journal; /* number of the next entry */
byte learners = LEARNERS_BEFORE;
byte updated; /* learners that will change nothing more */

/* An entry's number is taken first, then the entry is written; who finds a newer round there was overtaken, and takes
 * another number. */
#define WRITE_ENTRY(done) \
  do \
  :: atomic { number = journal; journal++; assert(journal < 16) } \
     e = entry[number % ENTRIES]; \
     atomic { \
       if \
       :: PLAIN_STORES || entry[number % ENTRIES] == e && round_of(e) <= number / ENTRIES -> \
          entry[number % ENTRIES] = ENTRY(number, done); \
          e = 0; \
          if :: read == number -> read++ :: else fi; \
          break \
       :: else \
       fi \
     } \
  od

/* U1. */
#define ANNOUNCE if :: others -> WRITE_ENTRY(false) :: else fi
#define MAY_DIE if :: KILLS -> updated++; goto killed :: skip fi

/* U2: a compare-and-swap, if the low bits are still those of the row that was sampled. */
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
          prio[0] = PRIORITY(row_of_priority(leaf[0]), value); \
          leaf[0] = prio[0]; \
          p = 0; changed = true; \
          break \
       :: else \
       fi \
     } \
  od

/* U3. */
#define SAY_DONE \
  overtaken = is_old(number, journal); \
  if \
  :: others && !overtaken -> \
     atomic { \
       if \
       :: PLAIN_STORES || entry[number % ENTRIES] == ENTRY(number, false) -> entry[number % ENTRIES] = ENTRY(number, true) \
       :: else -> overtaken = true \
       fi \
     } \
  :: else \
  fi; \
  if :: others && overtaken && changed -> WRITE_ENTRY(true) :: else fi; \
  if \
  :: !others && changed && !WEAK_U2 -> \
     others = learners > 1; \
     if :: others -> WRITE_ENTRY(true) :: else fi \
  :: else \
  fi

proctype learner(byte value; byte updates; bool late) {
  byte leaf[CAPACITY], remembered[SEATS];
  byte last, h, k, c, r, w, p;
  byte read, waiting, number, end, e; /* waiting: a bit for each entry that was not done */
  bool look, final, others, changed, overtaken;

  if
  :: late ->
     learners++;
     atomic {
       if
       :: FROM_THE_END -> read = journal
       :: !FROM_THE_END && journal > ENTRIES / 2 -> read = journal - ENTRIES / 2
       :: else
       fi
     }
  :: else
  fi;
  if :: updates == 0 -> updated++ :: else fi;
  if :: DEAF && updates > 0 -> leaf[0] = PRIORITY(0, 1); goto U1 :: else fi;
T1:
  atomic { updates == 0 || leaf[0] == NO_LEAF -> final = updated == COUNT && finished == EXPLORERS }
  CATCH_UP;
T5:
#if WEAK_T5 /* the priority is loaded before the entries */
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

U1:
  do
  :: updates > 0 && leaf[0] != NO_LEAF ->
     others = learners > 1;
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
       number = 0; others = false; changed = false; overtaken = false;
       updates--;
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
    run learner(2, FIRST_UPDATES, false);
    run learner(3, LATER_UPDATES, true);
#if COUNT > 2
    run learner(1, 0, false)
#endif
  }
}
