/* Sequences of two rows, on the ring of ring.pml: a reader follows the link of a row to the row before it, while
 * explorers add. Each explorer is one stream. What the reader accepts must be two consecutive steps of one stream. */
#define LINKS 1
#ifndef LATER_ROWS
#define LATER_ROWS 1 /* added by each explorer but the first */
#endif
#include "ring.pml"

/* A reader writes nothing that other processes see: a single draw covers any number of readers and draws. */
proctype reader() {
  byte slot, seen, back, before, at;
  atomic {
    if
    :: slot = 0
    :: slot = CAPACITY - 1
    fi
  }
  ORDER(WEAK_L1, /* look */ seen = word[slot], back = link[slot]);
  atomic {
    if
    :: !is_written(seen) || back == 0 || back > row_of(seen) -> goto end
    :: else -> at = row_of(seen) - back
    fi
  }
  atomic { /* look at the row before it */
    before = word[SLOT(at)];
    if
    :: !is_written(before) || (before != WRITTEN(at) && !NO_NUMBER) -> goto end
    :: else
    fi
  }
  atomic { /* L3: look again */ if :: word[slot] != seen && !NO_L3 -> goto end :: else fi }
  atomic { if :: word[SLOT(at)] != before && !NO_L3 -> goto end :: else fi }
  atomic {
    assert(writer_of[row_of(before)] == writer_of[row_of(seen)]);
    assert(step_of[row_of(before)] + 1 == step_of[row_of(seen)]);
  }
end:
  atomic { slot = 0; seen = 0; back = 0; before = 0; at = 0 }
}

init {
  byte i;
  atomic {
    do
    :: i < EXPLORERS -> run explorer((i == 0 -> ROWS : LATER_ROWS), i); i++
    :: else -> break
    od;
    run reader();
  }
}
