/* The ring of docs/protocol.md: its words, its registrations, and an explorer that may die or be stopped before any of
 * its steps. The steps have the names used there. rows.pml adds a reader, tree.pml adds a learner, and sequences.pml adds a reader of
 * sequences.
 *
 * Spin's memory is sequentially consistent. A weakened memory order is modelled by swapping the two operations that it
 * keeps in sequence. If they belong to two processes, a comment says so. */
#include "words.pml"
#ifndef CAPACITY
#define CAPACITY 2 /* slots: 1 or 2 */
#endif
#ifndef EXPLORERS
#define EXPLORERS 2
#endif
#ifndef ROWS
#define ROWS 2 /* added by the first explorer; each other explorer adds one */
#endif
#ifndef CHUNK
#define CHUNK 1 /* 1 or 2 */
#endif
#ifndef REGISTRATIONS
#define REGISTRATIONS EXPLORERS /* 1 to 3 */
#endif
#ifndef DEATHS
#define DEATHS 0 /* at most; any explorer, before any step */
#endif
#ifndef STOPS
#define STOPS 0 /* likewise; a stopped explorer never continues and keeps its locks */
#endif

#define NONE 0
#define CLAIM(first, count) ((first) << 2 | (count))
#define first_of(c) ((c) >> 2)
#define end_of(c) (first_of(c) + ((c) & 3))

byte head;
byte word[CAPACITY];
byte claim[REGISTRATIONS];
bool locked[REGISTRATIONS + 1]; /* the last one, NOBODY's, is never tested */

/* A row has data for a reader, a priority for learners, or a link. Without any of them, E5 is left out. */
#if READER
#define UNWRITTEN 255
byte first_word[CAPACITY] = UNWRITTEN;
byte second_word[CAPACITY] = UNWRITTEN;
#define COPY(s) STEP(second_word[SLOT(s)] = s)
#elif LEARNERS
#define PRIORITY(s, value) ((s) << 2 | (value)) /* a value is 1 to 3; a new row has 1 */
#define row_of_priority(p) ((p) >> 2)
byte prio[CAPACITY];
#if LARGEST
byte largest; /* in this check, a row's priority is its number + 1 */
#endif
#define COPY(s) STEP(prio[SLOT(s)] = PRIORITY(s, 1))
#elif LINKS
byte link[CAPACITY]; /* how many rows before it the previous row of the stream is; 0: it begins a run */
#if CHAIN_IN_REGISTRATION
byte chain[REGISTRATIONS];
#define LAST chain[registration]
#else
byte last_row[EXPLORERS]; /* each explorer's last row, + 1; private to the explorer */
#define LAST last_row[me]
#endif
byte writer_of[LAST_ROW + 1], step_of[LAST_ROW + 1]; /* read by the checks only */
#define COPY(s) STEP( \
    link[SLOT(s)] = (LAST == 0 -> 0 : s + 1 - LAST); \
    LAST = s + 1; \
    writer_of[s] = me; \
    step_of[s] = steps + i)
#define CUT if :: !KEEPS_CHAIN -> LAST = 0 :: else fi
#else
#define COPY(s) skip
#endif
#ifndef CUT
#define CUT skip
#endif
#define RAISE(s) STEP(if :: largest <= s -> largest = s + 1 :: else fi)

/* Only the checks read these. */
byte finished, deaths, stops;
byte writers[CAPACITY];
#if HISTORY
int was_written;       /* a bit for each row */
byte newest[CAPACITY]; /* the slot's newest committed row, + 1 */
#define RECORD(s) \
  assert(!(was_written & 1 << s)); was_written = was_written | 1 << s; \
  assert(newest[SLOT(s)] <= s); newest[SLOT(s)] = s + 1
#else
#define RECORD(s) skip
#endif
#if WEAK_E5
bool marking[CAPACITY];
#endif

#define NEXT_ROW(loop, after) i++; s = 0; seen = 0; if :: i < count -> goto loop :: else -> i = 0; goto after fi
#define MINE(row) (mine >> (row) & 1)

#define COMMIT \
  word[SLOT(s)] = WRITTEN(s); \
  writers[SLOT(s)]--; \
  mine = mine & ~(1 << i); \
  RECORD(s)

#if LINKS
proctype explorer(byte rows; byte me) {
  byte steps; /* of this explorer, before the rows being added */
#else
proctype explorer(byte rows) {
#endif
  byte registration = NOBODY, dead = NOBODY, h, count, i, s, seen, mine, again;
#if WEAK_E2
  byte late;
#endif
#if WEAK_E4
  byte old;
#endif

E1: /* take a registration whose lock is not held */
  skip;
  STEP(!locked[0] || !locked[REGISTRATIONS - 1] || !locked[REGISTRATIONS / 2] ->
    if
    :: !locked[0] -> registration = 0
    :: REGISTRATIONS > 1 && !locked[REGISTRATIONS - 1] -> registration = REGISTRATIONS - 1
    :: REGISTRATIONS > 2 && !locked[REGISTRATIONS / 2] -> registration = REGISTRATIONS / 2
    fi;
    locked[registration] = true;
    if
    :: claim[registration] != NONE -> dead = registration; goto B1
    :: else
    fi);

E2: /* announce */
  skip;
  STEP(h = head; count = (rows < CHUNK -> rows : CHUNK));
  ORDER(WEAK_E3,
    STEP(claim[registration] = CLAIM(h, count)),
    STEP(/* E3: claim */
      if
      :: head == h || FETCH_ADD -> h = head; head = h + count; assert(head <= LAST_ROW + 1)
      :: else -> goto E2
      fi));
#if WEAK_E2 /* the last chunk's commit becomes visible after the new announcement */
  STEP(if :: late > 0 -> word[SLOT(late - 1)] = WRITTEN(late - 1); writers[SLOT(late - 1)]--; late = 0 :: else fi);
#endif

E4: /* mark */
  skip;
  STEP(s = h + i; seen = word[SLOT(s)];
    if
    :: FETCH_ADD
    :: !FETCH_ADD && row_of(seen) > s -> NEXT_ROW(E4, E5) /* lapped: the row is dropped */
    :: !FETCH_ADD && is_writing(seen) && row_of(seen) < s -> goto held
    :: else
    fi);
#if WEAK_E5 /* a word of data becomes visible before the mark; the slot is reserved here */
  STEP(!marking[SLOT(s)] -> if :: word[SLOT(s)] != seen -> goto E4 :: else -> marking[SLOT(s)] = true fi);
  STEP(first_word[SLOT(s)] = s);
#endif
  STEP(if
    :: word[SLOT(s)] != seen && !FETCH_ADD -> goto E4
    :: else ->
       word[SLOT(s)] = WRITING(s, registration);
       mine = mine | 1 << i;
       writers[SLOT(s)]++;
#if WEAK_E5
       marking[SLOT(s)] = false;
#endif
       assert(writers[SLOT(s)] == 1 || ONLY_ROWS);
       NEXT_ROW(E4, E5)
    fi);
held:
  skip;
  STEP(if
    :: locked[registration_of(seen)] && !NO_REGISTRATION_LOCK -> again++; NEXT_ROW(E4, E5)
    :: else -> dead = registration_of(seen); locked[dead] = true
    fi);

B1: /* one step is enough, since no other process changes these words */
  skip;
  ORDER(WEAK_B1,
    STEP(s = 0;
      do
      :: s < CAPACITY ->
         seen = word[s];
         if
         :: !NO_B1 && is_writing(seen) && registration_of(seen) == dead
            && (WEAK_B1 || row_of(seen) >= first_of(claim[dead]) && row_of(seen) < end_of(claim[dead])) ->
            word[s] = FREE(row_of(seen))
         :: else
         fi;
         s++
      :: else -> s = 0; seen = 0; break
      od),
    STEP(claim[dead] = NONE) /* B2 */);
  STEP(if
    :: dead == registration -> dead = NOBODY; goto E2
    :: else -> locked[dead] = false; dead = NOBODY; goto E4
    fi);

E5: /* copy the first word of each row ... */
  skip;
#if READER
  STEP(if :: MINE(i) -> s = h + i; first_word[SLOT(s)] = s :: else fi;
    NEXT_ROW(E5, E6));
#endif
E6: /* ... then the last word, and commit */
  skip;
  if
  :: MINE(i) ->
     s = h + i;
#if WEAK_E2
     if :: i + 1 == count && rows > count -> COPY(s); mine = 0; late = s + 1; goto E7 :: else fi;
#endif
#if WEAK_E4
     old = second_word[SLOT(s)];
#endif
#if WEAK_E7
     STEP(claim[registration] = NONE);
#endif
#if LARGEST && WEAK_E8
     RAISE(s);
#endif
     ORDER(WEAK_E6, COPY(s), STEP(COMMIT));
#if LARGEST && !WEAK_E8
     RAISE(s);
#endif
#if WEAK_E4 /* not ordered after the slot's previous writer, whose word overwrites ours */
     STEP(if :: old != UNWRITTEN -> second_word[SLOT(s)] = old :: else fi);
#endif
  :: else -> CUT /* the row was dropped, or is added later */
  fi;
  atomic { NEXT_ROW(E6, E7) };

E7: /* close the claim; if more rows follow, their announcement (E2) does that */
  skip;
  STEP(
    rows = rows - count + again;
#if LINKS
    steps = steps + count;
#endif
    h = 0;
    count = 0;
    if
    :: again > 0 -> again = 0; goto claim_again
    :: again == 0 && rows > 0 -> goto E2
    :: else -> claim[registration] = NONE
    fi);
E8:
  skip;
  STEP(locked[registration] = false; registration = NOBODY;
    if :: rows > 0 -> goto E1 :: else -> goto done fi);

claim_again: /* the explorer spins while all slots are held; here it waits until one is free */
  skip;
  STEP(!all_held -> goto E2);

died: /* the kernel releases the locks */
  atomic {
    locked[registration] = false;
    locked[dead] = false;
    i = 0;
    do
    :: i < CHUNK -> if :: MINE(i) -> writers[SLOT(h + i)]-- :: else fi; i++
    :: else -> break
    od;
done:
    finished++;
    registration = 0; dead = 0; rows = 0; h = 0; count = 0; i = 0; s = 0; seen = 0; mine = 0; again = 0;
    goto end
  }
stopped:
  atomic { finished++; }
end_stopped:
  false;
end:
  skip
}
