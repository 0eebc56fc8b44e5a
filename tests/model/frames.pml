/* Frames stored once (F1 to F5, B0, L4). Explorers, which may die before any of their steps, take chunks, append frames
 * and add rows that refer to them, while a reader samples. A frame has two words, and a value is one frame. With
 * SHARED, a row may refer to the last frame that its process appended. A claim is only open or closed; rows.pml models
 * its rows. */
#include "words.pml"
#ifndef CAPACITY
#define CAPACITY 1 /* slots: 1 or 2 */
#endif
#ifndef EXPLORERS
#define EXPLORERS 2
#endif
#ifndef CALLS
#define CALLS 1 /* by the first explorer; each other explorer makes one */
#endif
#ifndef ROWS
#define ROWS 1 /* per call: 1 or 2 */
#endif
#ifndef REGISTRATIONS
#define REGISTRATIONS 2 /* 1 or 2 */
#endif
#ifndef CHUNKS
#define CHUNKS 3 /* at most 7 */
#endif
#ifndef FRAMES
#define FRAMES 1 /* per chunk */
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef FAILURES
#define FAILURES 0 /* failed attempts to take a chunk whose memory is not yet allocated */
#endif
#ifndef CLEARS
#define CLEARS 0
#endif
#ifndef STORED
#define STORED 0 /* rows stored at the start, 0 or 1; the frame is in a chunk of an explorer that died */
#endif
#ifndef LATER
#define LATER 0 /* calls made after all explorers have finished; each must find a chunk */
#endif

byte head = STORED, cleared, holes_until;
byte word[CAPACITY], ref[CAPACITY];
byte want[CAPACITY]; /* the frame that the row in this slot should have; only the checks read this */
bool claim[REGISTRATIONS], locked[REGISTRATIONS + 1];
byte chunk[CHUNKS];  /* a chunk's word: 0, WRITING(0, registration) or WRITTEN(e) */
bool filling[REGISTRATIONS];
byte open[REGISTRATIONS], used[REGISTRATIONS], appended[REGISTRATIONS]; /* where a registration appends; `open` is its chunk + 1 */
byte first_word[CHUNKS * FRAMES], second_word[CHUNKS * FRAMES];
byte finished, deaths, stops, failures;
bool recovered; /* from now on, every explorer must find a chunk */
#if WEAK_F2
bool loose[CHUNKS]; /* its writer has claimed no row since filling it, so only its word orders these frames */
#endif
#if WEAK_F3
bool promised[CHUNKS];
#define is_promised(c) (promised[c] && !promises)
#else
#define is_promised(c) false
#endif

#define is_expired(s) ((s) < cleared || (s) + CAPACITY < head + EXPIRED_EARLY)
#define is_over_for_F2(s) ((s) < cleared || (s) + CAPACITY + F2_LATE < head + (EXPIRED_EARLY || F2_EARLY))
#define may_be_used(c) \
  (!chunk[c] || is_written(chunk[c]) && (!row_of(chunk[c]) || NO_LOOK || is_over_for_F2(row_of(chunk[c]) - 1)))
#define AT ((mine - 1) * FRAMES + count)

proctype explorer(byte value; byte calls) {
  byte registration = NOBODY, dead = NOBODY, i, c, h, s, e, seen;
  byte mine, count, closing; /* the open chunk, its number of used frames, a bit for each chunk to close */
  byte refs[ROWS], values[ROWS];
#if SHARED
  byte here, last_ref, last_value, last_registration, last_appended;
#endif
#if WEAK_F2
  byte old;
#endif
#if WEAK_F3
  bool promises;
#endif

E1:
  skip;
  STEP(!locked[0] || !locked[REGISTRATIONS - 1] ->
    if
    :: !locked[0] -> registration = 0
    :: REGISTRATIONS > 1 && !locked[REGISTRATIONS - 1] -> registration = REGISTRATIONS - 1
    fi;
    locked[registration] = true;
    if
    :: claim[registration] || filling[registration] && !B0_CLAIMED -> dead = registration; goto B0
    :: else
    fi);

F1:
  skip;
  STEP(mine = open[registration]; count = used[registration];
#if SHARED
    here = appended[registration];
#endif
    filling[registration] = !WEAK_F1);

F2: /* look for a chunk whose rows have expired, or else for a fresh one */
  skip;
  atomic {
    if
#if SHARED
    :: last_ref > 0 && last_registration == registration && (last_appended == here || NO_APPENDED) ->
       refs[i] = last_ref; values[i] = last_value;
       goto appended_row
#endif
    :: mine > 0 && count < FRAMES -> goto F3
    :: else
    fi
  }
#if WEAK_F3 /* a frame's word becomes visible before its chunk is taken; the chunk is reserved here */
  STEP(
    do
    :: c < CHUNKS && (promised[c] || !is_written(chunk[c])) -> c++
    :: else -> break
    od;
    if
    :: c < CHUNKS -> promised[c] = true; promises = true; first_word[c * FRAMES] = value + 1
    :: else -> c = 0
    fi);
end_F2: /* discard this execution if the chunk cannot be taken after all */
  !promises || may_be_used(c);
#endif
  STEP(
    do
    :: c < CHUNKS && (!may_be_used(c) || is_promised(c)) -> c++
    :: else -> break
    od;
    if
    :: c == CHUNKS -> assert(!recovered); c = 0; goto take_back
    :: c < CHUNKS && !chunk[c] && failures < FAILURES -> failures++; c = 0; goto take_back
    :: c < CHUNKS -> e = chunk[c]
    fi);
  STEP(/* take the chunk */
    if
    :: chunk[c] != e -> c = 0; e = 0; goto F2
    :: else ->
       chunk[c] = WRITING(0, registration);
       closing = closing | 1 << mine; mine = c + 1; count = 0;
#if WEAK_F2
       old = (loose[c] -> second_word[c * FRAMES] : 0);
       loose[c] = true;
#endif
#if WEAK_F3
       if :: promises -> promised[c] = false; promises = false :: else fi;
#endif
       c = 0; e = 0
    fi);
#if WEAK_F1
  STEP(filling[registration] = true);
#endif

F3: /* append the frame */
  skip;
  STEP(assert(chunk[mine - 1] == WRITING(0, registration)); value++; first_word[AT] = value);
  STEP(second_word[AT] = value);
#if WEAK_F2 /* not ordered after the chunk's previous writer, whose word overwrites ours */
  STEP(if :: old > 0 -> second_word[AT] = old; old = 0 :: else fi);
#endif
  atomic {
    refs[i] = AT + 1; values[i] = value; count++;
#if SHARED
    here++;
    last_ref = refs[i]; last_value = value; last_registration = registration; last_appended = here;
#endif
appended_row:
    i++;
    if
    :: i < ROWS -> goto F2
    :: else -> i = 0
    fi;
#if F4_EARLY
    e = head
#endif
  }

E2:
  skip;
  STEP(h = head; s = (h > cleared -> h : cleared); claim[registration] = true; seen = (WEAK_E4_LATE -> word[SLOT(s)] : 0));
E3:
  skip;
  STEP(
    if
    :: head != h -> goto E2
    :: else -> head = s + 1; h = 0; assert(head <= LAST_ROW)
    fi;
#if WEAK_F2
    do
    :: c < CHUNKS -> loose[c] = loose[c] && mine != c + 1 && !(closing >> (c + 1) & 1); c++
    :: else -> c = 0; break
    od
#endif
  );
E4:
  skip;
  STEP(seen = (WEAK_E4_LATE && is_writing(seen) -> seen : word[SLOT(s)]);
    if
    :: row_of(seen) > s -> seen = 0; goto next /* lapped: the row is dropped */
    :: is_writing(seen) && locked[registration_of(seen)] -> seen = 0; goto claim_again
    :: is_writing(seen) && !locked[registration_of(seen)] -> dead = registration_of(seen); locked[dead] = true; seen = 0; goto B0
    :: else -> word[SLOT(s)] = WRITING(s, registration); seen = 0
    fi);
E5:
  skip;
  STEP(ref[SLOT(s)] = refs[i]);
E6:
  skip;
#if LATE
#define LOOK_IF_LATE STEP(seen = (s + CAPACITY < head -> head : 0))
  ORDER(WEAK_E6_LATE, STEP(word[SLOT(s)] = WRITTEN(s)), LOOK_IF_LATE);
  STEP(if :: seen > 0 && !NO_LATE && holes_until < seen + CAPACITY -> holes_until = seen + CAPACITY :: else fi; seen = 0);
#else
  STEP(word[SLOT(s)] = WRITTEN(s); want[SLOT(s)] = values[i]);
#endif
next:
  atomic {
    refs[i] = 0; values[i] = 0; s = 0; i++;
    if
    :: i < ROWS -> goto E2
    :: else -> i = 0
    fi
  }

#define CLOSE(end) \
  do \
  :: c < CHUNKS -> if :: closing >> (c + 1) & 1 -> chunk[c] = WRITTEN(end) :: else fi; c++ \
  :: else -> c = 0; closing = 0; break \
  od
F4: /* close the full chunks; one step is enough, since no other process changes these words */
  skip;
#if !F4_EARLY
  STEP(e = head);
#endif
F5:
  skip;
#if F5_BEFORE_F4
  STEP(open[registration] = mine; used[registration] = count);
  STEP(filling[registration] = false);
  STEP(CLOSE(e));
#else
  STEP(CLOSE(e));
  ORDER(WEAK_F5,
    STEP(open[registration] = mine; used[registration] = count;
#if SHARED
      appended[registration] = here
#endif
    ),
    STEP(filling[registration] = false));
#endif
E7:
  skip;
  STEP(claim[registration] = false);
E8:
  skip;
  STEP(locked[registration] = false; registration = NOBODY; mine = 0; count = 0; e = 0; calls--;
#if SHARED
    here = 0;
#endif
    if
    :: calls > 0 -> goto E1
    :: else -> goto done
    fi);

claim_again:
  skip;
  STEP(!all_held -> goto E2);

take_back: /* return the chunks of this call; frames appended to the open chunk are not counted */
  skip;
  STEP(
    if :: NO_UNDO -> closing = 0 :: else -> closing = closing | 1 << mine fi;
    if :: UNDO_OPEN -> skip :: else -> closing = closing & ~(1 << open[registration]) fi;
    CLOSE(0);
    i = 0;
    do
    :: i < ROWS -> refs[i] = 0; values[i] = 0; i++
    :: else -> i = 0; break
    od;
#if SHARED
    last_ref = 0;
#endif
    filling[registration] = false;
    goto E8);

B0: /* like F4, for the chunks of the dead process */
  skip;
#define CLOSE_GRAVE \
  STEP(e = head); \
  STEP( \
    do \
    :: c < CHUNKS -> if :: chunk[c] == WRITING(0, dead) -> chunk[c] = WRITTEN(e) :: else fi; c++ \
    :: else -> c = 0; e = 0; break \
    od)
#if B0_LAST
  goto B1;
B0_then:
  skip;
#endif
#if NO_B0
#elif WEAK_B0
  STEP(open[dead] = 0; filling[dead] = false);
  CLOSE_GRAVE;
#else
  if
  :: filling[dead] ->
     CLOSE_GRAVE;
     STEP(open[dead] = 0; appended[dead] = appended[dead] + !NO_BUMP; filling[dead] = false)
  :: else
  fi;
#endif
#if B0_LAST
  goto was_reclaimed;
#endif
B1:
  skip;
  STEP(
    do
    :: c < CAPACITY ->
       if
       :: is_writing(word[c]) && registration_of(word[c]) == dead -> word[c] = FREE(row_of(word[c]))
       :: else
       fi;
       c++
    :: else -> c = 0; break
    od);
  STEP(claim[dead] = false); /* B2 */
#if B0_LAST
  goto B0_then;
#endif
was_reclaimed:
  skip;
  STEP(
    if
    :: dead == registration -> dead = NOBODY; goto F1
    :: else -> locked[dead] = false; dead = NOBODY; goto E4
    fi);

died:
  atomic {
    locked[registration] = false;
    locked[dead] = false;
done:
    finished++;
    registration = 0; dead = 0; value = 0; calls = 0; i = 0; c = 0; h = 0; s = 0; e = 0; seen = 0;
    mine = 0; count = 0; closing = 0;
    do
    :: i < ROWS -> refs[i] = 0; values[i] = 0; i++
    :: else -> i = 0; break
    od;
    goto end
  }
stopped:
  false;
end:
  skip
}

/* A reader writes nothing that other processes see, so a single read that may begin at any time represents any number
 * of readers and reads. */
proctype reader() {
  byte slot, seen, expected, at, first, second;
  atomic {
    if
    :: slot = 0
    :: CAPACITY > 1 -> slot = CAPACITY - 1
    fi
  }
  atomic { /* L1 */
    seen = word[slot];
    if
    :: !is_written(seen) || row_of(seen) < cleared -> goto end
    :: else -> expected = want[slot]
    fi
  }
  at = ref[slot] - 1; /* L2 */
  first = first_word[at];
#define COPY_LAST second = second_word[at]
#define LOOK_IF_OVER \
  atomic { \
    if \
    :: NO_L4 \
    :: !NO_L4 && (row_of(seen) < cleared && !L4_NOT_CLEARED || row_of(seen) + CAPACITY < head + EXPIRED_EARLY) -> goto end \
    :: else \
    fi \
  }
#define LOOK_AGAIN atomic { if :: word[slot] != seen && !NO_L3 -> goto end :: else fi }
#if L4_EARLY
  LOOK_IF_OVER;
  COPY_LAST;
  LOOK_AGAIN;
#else
  COPY_LAST;
  ORDER(L4_LAST, LOOK_IF_OVER, LOOK_AGAIN);
#endif
#if WEAK_F3
end_L3:
  !promised[0] && !promised[CHUNKS - 1] && !promised[CHUNKS / 2];
#endif
  atomic {
    assert(first == expected && second == expected);
  }
end:
  atomic { slot = 0; seen = 0; expected = 0; at = 0; first = 0; second = 0 }
}

/* No chunk is lost, and none has two owners: each is its registration's open chunk, or will be closed when the
 * registration is reclaimed. */
inline check_chunks() {
  do
  :: i < CHUNKS ->
     if
     :: is_writing(chunk[i]) -> assert(filling[registration_of(chunk[i])] || open[registration_of(chunk[i])] == i + 1)
     :: else -> assert(row_of(chunk[i]) <= head)
     fi;
     i++
  :: else -> i = 0; break
  od;
  do
  :: i < REGISTRATIONS -> assert(filling[i] || open[i] == 0 || chunk[open[i] - 1] == WRITING(0, i)); i++
  :: else -> i = 0; break
  od
}

init {
  byte i;
  atomic {
#if STORED
    word[0] = WRITTEN(0); ref[0] = 1; want[0] = 1; first_word[0] = 1; second_word[0] = 1; chunk[0] = WRITTEN(1);
#endif
    do
    :: i < EXPLORERS -> i++; run explorer(i << 4, (i == 1 -> CALLS : 1))
    :: else -> i = 0; break
    od;
#if READER
    run reader();
#endif
  }
#if CLEARS
  atomic { cleared = (head + CAPACITY - 1) / CAPACITY * CAPACITY }
#endif
#if WEAK_F3
end_all:
#endif
  atomic {
    finished == EXPLORERS ->
    check_chunks();
#if LATE
    do
    :: i < CAPACITY -> assert(holes_until > head || is_written(word[i]) && !is_expired(row_of(word[i]))); i++
    :: else -> i = 0; break
    od;
#endif
#if LATER
    deaths = DEATHS; failures = FAILURES; recovered = true;
    run explorer((EXPLORERS + 1) << 4, LATER)
#endif
  }
#if LATER
  atomic { finished == EXPLORERS + 1 -> check_chunks() }
#endif
}
