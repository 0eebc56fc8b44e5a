// Robust locks, sequentially consistent.
#pragma once

#include "histories.hpp"

namespace weak::model {

// As pthread_mutex_trylock() of a robust mutex: 0, EBUSY, or EOWNERDEAD if its holder died.
int take_lock(void* mutex, int thread, View& view);
void return_lock(void* mutex, const View& view);
// A thread dies with what it holds.
void orphan_locks(int thread, const View& view);

void clear_locks();

}  // namespace weak::model
