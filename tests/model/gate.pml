/* The gate of cpprb 11's MPReplayBuffer, with the steps of its source (PyReplayBuffer.pyx: `add`, `sample`,
 * `_lock_explorer`, `_lock_learner` ...). It is the negative control of rows.pml. Waiting for an event and clearing it
 * are separate steps. Each explorer adds one row, and a learner samples once. The buffer initially contains row 0, or
 * no row (NEW). */
#ifndef EXPLORERS
#define EXPLORERS 2
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef NEW
#define NEW 0
#endif
#define UNWRITTEN 255

bool explorer_ready = true, learner_ready = !NEW;
byte stored = !NEW, explorer_count, explorers_inside, deaths;
byte first_word[EXPLORERS + 1] = UNWRITTEN, second_word[EXPLORERS + 1] = UNWRITTEN;

#define STEP(...) if :: deaths < DEATHS -> deaths++; goto end :: atomic { skip; __VA_ARGS__ } fi

proctype explorer() {
  byte row;
  STEP(row = stored; stored++); /* fetch_add of the index */
  STEP(explorer_ready);         /* wait */
  STEP(learner_ready = false);
  STEP(explorer_count++; explorers_inside++);
  STEP(first_word[row] = row);
  STEP(second_word[row] = row);
  STEP(explorers_inside--; explorer_count--);
  STEP(if :: explorer_count == 0 -> learner_ready = true :: else fi);
end:
  skip
}

init {
  byte row, first, second;
  atomic {
    if :: !NEW -> first_word[0] = 0; second_word[0] = 0 :: else fi;
    do
    :: row < EXPLORERS -> run explorer(); row++
    :: else -> row = 0; break
    od
  }
  atomic { stored > 0 -> if :: row = 0 :: row = stored - 1 fi }
  explorer_ready = false;
  learner_ready; /* wait */
#if CHECK_ALONE
  assert(explorers_inside == 0);
#endif
  first = first_word[row];
  second = second_word[row];
#if CHECK_WHOLE
  assert(first == second);
#endif
#if CHECK_WRITTEN
  assert(first != UNWRITTEN || second != UNWRITTEN);
#endif
  explorer_ready = true
}
