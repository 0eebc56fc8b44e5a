/* A learner and its tree, while explorers add. Once all explorers have finished, died or stopped, and the learner has
 * caught up once more, its tree contains the priority of each stored row and no other priority. */
#include "learner.pml"

init {
  byte leaf[CAPACITY], remembered[REGISTRATIONS];
  byte last, h, k, c, r, w, p;
  bool final;
  atomic {
    do
    :: k < EXPLORERS -> run explorer((k == 0 -> ROWS : 1)); k++
    :: else -> k = 0; break
    od
  }
#if LARGEST
  /* E8: a process that sees a largest priority finds its row, or a newer row in the same slot. */
  atomic {
    finished == EXPLORERS || largest > 0;
    if :: largest > 0 -> r = largest - 1; w = word[SLOT(r)]; assert(w == WRITTEN(r) || row_of(w) > r) :: else fi;
    r = 0; w = 0
  }
#else
  do
  :: !final -> final = finished == EXPLORERS; CATCH_UP
  :: else -> break
  od;
  atomic { CHECK_LEAVES }
#endif
}
