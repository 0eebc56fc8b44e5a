/* Shared by ring.pml and frames.pml: the switches, slots' words, and steps before which an explorer may die. */
#include "orders.pml"

/* A slot's word: two bits for its state, two for the registration, the others for the row's number. */
#define FREE(s) (PLAIN_FREE -> 0 : (s) << 4) /* whoever was to write row s died; FREE(0) from the start */
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

/* One step, of which nobody sees half; death or a stop may come before it. Where a goto leads stands `skip` first: from
 * one atomic block into another it would make one of both. */
#define STEP(...) \
  atomic { \
    if \
    :: deaths < DEATHS -> deaths++; goto died \
    :: stops < STOPS -> stops++; goto stopped \
    :: skip; /* or else an `else` of the step's would be one of this `if` */ __VA_ARGS__ \
    fi \
  }
