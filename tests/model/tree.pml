/* A learner's steps T1 to T4, on the ring of ring.pml. When all explorers have finished, died or stopped, and it has
 * caught up once more, it knows the priority of each row that is there, and no other. */
#define LEARNERS 1
#include "ring.pml"

/* Rows r to `end`: a leaf is the slot's priority if its word is `written(s)` and the low bits of s match, else 0. */
#define LOOK_AT_ROWS(end) \
  do \
  :: r < end -> \
     ORDER(WEAK_T4, w = word[SLOT(r)], p = prio[SLOT(r)]); \
     atomic { \
       leaf[SLOT(r)] = (is_written(w) && row_of_priority(p) == row_of(w) && (r == row_of(w) || !T4_EXACT) -> p : 0); \
       w = 0; p = 0; r++ \
     } \
  :: else -> r = 0; break \
  od

#define LOOK_AT_REMEMBERED \
  if \
  :: remembered[k] != NONE && !FORGETS && !(T2_CLOSED_ONLY && remembered[k] == c) -> \
     r = first_of(remembered[k]); \
     LOOK_AT_ROWS(end_of(remembered[k])) \
  :: else \
  fi

#define LOOK_AT_CLAIMS \
  do \
  :: k < SEATS -> \
     ORDER(WEAK_T2, c = claim[k], LOOK_AT_REMEMBERED); \
     if :: TWO_LOADS -> c = claim[k] :: else fi; \
     atomic { remembered[k] = (first_of(c) < h || WEAK_T1 -> c : NONE); c = NONE; k++ } \
  :: else -> k = 0; break \
  od

#define LOOK_AT_NEW_ROWS \
  r = last; \
  if :: h > last + CAPACITY -> r = h - CAPACITY :: else fi; \
  LOOK_AT_ROWS(h)

init {
  byte leaf[CAPACITY], remembered[SEATS];
  byte last, h, k, c, r, w, p;
  bool final;
  atomic {
    do
    :: k < EXPLORERS -> run explorer((k == 0 -> ROWS : 1)); k++
    :: else -> k = 0; break
    od
  }
T1:
  atomic { final = finished == EXPLORERS; h = head }
  ORDER(WEAK_T3, LOOK_AT_CLAIMS /* T2, T3 */, LOOK_AT_NEW_ROWS /* T4 */);
#if WEAK_T1
  h = head;
  LOOK_AT_NEW_ROWS;
#endif
  atomic {
    last = h;
    h = 0;
    if :: !final -> goto T1 :: else fi;
    do
    :: k < CAPACITY ->
       assert(leaf[k] == (is_written(word[k]) -> prio[k] : 0));
       assert(!is_written(word[k]) || row_of_priority(prio[k]) == row_of(word[k]));
       k++
    :: else -> break
    od
  }
}
