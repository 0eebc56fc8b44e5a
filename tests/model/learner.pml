/* How a learner catches up (T1 to T5), on the ring of ring.pml. Included by tree.pml and journal.pml. */
#define LEARNERS 1
#include "ring.pml"
#define NO_LEAF 0

/* Set the leaves of the rows from r up to `end` to the slot's priority if its word is `written(s)` and the low bits of
 * s match, otherwise to 0. */
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
  :: remembered[k] != NONE && remembered[k] == c && !final -> /* may look later: only the last look counts */ \
     skip \
  :: else \
  fi

#define LOOK_AT_CLAIMS \
  do \
  :: k < REGISTRATIONS -> \
     ORDER(WEAK_T2, c = claim[k], LOOK_AT_REMEMBERED); \
     if :: TWO_LOADS -> c = claim[k] :: else fi; \
     atomic { remembered[k] = (first_of(c) < h || WEAK_T1 -> c : NONE); c = NONE; k++ } \
  :: else -> k = 0; break \
  od

#define LOOK_AT_NEW_ROWS \
  r = last; \
  if :: h > last + CAPACITY -> r = h - CAPACITY :: else fi; \
  LOOK_AT_ROWS(h)

#define CATCH_UP \
  h = head; /* T1 */ \
  ORDER(WEAK_T3, LOOK_AT_CLAIMS /* T2, T3 */, LOOK_AT_NEW_ROWS /* T4 */); \
  if \
  :: WEAK_T1 -> h = head; LOOK_AT_NEW_ROWS \
  :: else \
  fi; \
  last = h

/* Only valid once no process changes anything any more. */
#define CHECK_LEAVES \
  do \
  :: k < CAPACITY -> \
     assert(leaf[k] == (is_written(word[k]) -> prio[k] : NO_LEAF)); \
     assert(!is_written(word[k]) || row_of_priority(prio[k]) == row_of(word[k])); \
     k++ \
  :: else -> break \
  od
