/* Rows and their slots, on the ring of ring.pml. With -DREADER=1, a reader samples (L1 to L3) while explorers add.
 * Otherwise, more rows are added after the explorers have finished, to check the state that they left behind. */
#include "ring.pml"

#if READER
/* A reader writes nothing that other processes see, so a single draw that may begin at any time represents any number
 * of readers and draws. */
proctype reader() {
  byte slot, seen, first, second;
  atomic {
    if
    :: slot = 0
    :: slot = CAPACITY - 1
    fi
  }
  ORDER(WEAK_L1, /* look */ seen = word[slot], first = first_word[slot]);
  if :: !is_written(seen) -> goto end :: else fi;
  ORDER(WEAK_L2,
    second = second_word[slot],
    atomic { /* L3: look again */ if :: word[slot] != seen && !NO_L3 -> goto end :: else fi });
  atomic {
    assert(first == second);
    assert(first == row_of(seen));
  }
end:
  atomic { slot = 0; seen = 0; first = 0; second = 0 }
}
#endif

init {
  byte i, start;
  atomic {
    do
    :: i < EXPLORERS -> run explorer((i == 0 -> ROWS : 1)); i++
    :: else -> i = 0; break
    od;
#if READER
    run reader();
#endif
  }
#if !READER && STOPS == 0
  /* Whatever state was left behind, every slot is reused within CAPACITY adds. */
  atomic { finished == EXPLORERS -> deaths = DEATHS; start = head; run explorer(CAPACITY) }
  atomic {
    finished == EXPLORERS + 1 ->
    assert(head == start + CAPACITY);
    assert(is_written(word[0]) && row_of(word[0]) >= start);
    assert(is_written(word[CAPACITY - 1]) && row_of(word[CAPACITY - 1]) >= start);
  }
#endif
}
