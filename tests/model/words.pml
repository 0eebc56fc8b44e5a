/* Definitions for ring.pml and frames.pml: switches, words of slots, and steps before which an explorer may die. */
#include "orders.pml"

/* A slot's word: two bits for its state, two for the registration, the others for the row's number. */
#define FREE(s) (PLAIN_FREE -> 0 : (s) << 4) /* the process that should write row s has died; initially FREE(0) */
#define WRITING(s, registration) ((s) << 4 | (registration) << 2 | 1)
#define WRITTEN(s) ((s) << 4 | 2)
#define is_writing(w) (((w) & 3) == 1)
#define is_written(w) (((w) & 3) == 2)
#define registration_of(w) ((w) >> 2 & 3)
#define row_of(w) ((w) >> 4)
#define LAST_ROW 15
#define SLOT(s) ((s) % CAPACITY)
#define NOBODY REGISTRATIONS

#define is_held(slot) (is_writing(word[slot]) && locked[registration_of(word[slot])])
#define all_held (is_held(0) && is_held(CAPACITY - 1))

/* One atomic step; the process may die or be stopped before it. The target of a goto begins with `skip`: a jump from
 * one atomic block directly into another would merge the two. */
#define STEP(...) \
  atomic { \
    if \
    :: deaths < DEATHS -> deaths++; goto died \
    :: stops < STOPS -> stops++; goto stopped \
    :: skip; /* otherwise an `else` in the step would belong to this `if` */ __VA_ARGS__ \
    fi \
  }
