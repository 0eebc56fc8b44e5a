#include "locks.hpp"

#include <cerrno>
#include <map>
#include <utility>

namespace weak::model {
namespace {

struct Lock {
  int holder = -1;
  bool orphaned = false;
  View view;
};

std::map<void*, Lock> locks;

}  // namespace

int take_lock(void* mutex, int thread, View& view) {
  Lock& lock = locks[mutex];
  if (lock.holder >= 0) return EBUSY;
  lock.holder = thread;
  join(view, lock.view);
  return std::exchange(lock.orphaned, false) ? EOWNERDEAD : 0;
}

void return_lock(void* mutex, const View& view) {
  Lock& lock = locks[mutex];
  lock.holder = -1;
  lock.view = view;
}

void orphan_locks(int thread, const View& view) {
  for (auto& [mutex, lock] : locks)
    if (lock.holder == thread) lock = {-1, true, view};
}

void clear_locks() { locks.clear(); }

}  // namespace weak::model
