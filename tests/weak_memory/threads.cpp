#include "threads.hpp"

#include <ucontext.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "../../cpprb_impl/core/base/failpoints.hpp"
#include "choices.hpp"
#include "locks.hpp"

namespace weak {
namespace model {
namespace {

constexpr std::size_t kMaxThreads = 8, kStack = std::size_t{1} << 18, kMaxSteps = 20'000;

enum class State { ready, waiting, done, dead };

struct Thread {
  ucontext_t context;
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStack);
  std::function<void()> body;
  State state = State::done;
  int priority = 0;
  std::uint64_t operations = 0, dies_at = 0;  // 0: never
  const char* step = "";
  Knowledge knowledge;
};

Thread threads[kMaxThreads];
std::size_t thread_count = 0;
int current = -1;
bool running = false;  // an execution
ucontext_t outside;
const Options* given = nullptr;
Outcome outcome;
bool died = false;
std::uint64_t steps = 0;

std::vector<std::uint64_t> falls;  // steps at which the running thread's priority falls
int lowest = 0;                    // priority
std::uint64_t usual_steps = 200;

void switch_to(int next) {
  const int before = current;
  if (next == before) return;
  current = next;
  swapcontext(&threads[before].context, &threads[next].context);
}

[[noreturn]] void leave() {
  setcontext(&outside);
  std::abort();
}

// The next thread to go on, or none that can: then those that wait may.
int pick(bool let_go) {
  std::size_t ready[kMaxThreads], count = 0;
  for (std::size_t i = 0; i < thread_count; ++i)
    if (threads[i].state == State::ready) ready[count++] = i;
  if (count == 0) {
    View all;
    for (std::size_t i = 0; i < thread_count; ++i) join(all, threads[i].knowledge.view);
    for (std::size_t i = 1; i < thread_count; ++i)
      if (threads[i].state == State::waiting) threads[ready[count++] = i].state = State::ready;
    // Main waits for the others' end.
    if (count == 0) threads[ready[count++] = 0].state = State::ready;
    for (std::size_t i = 0; i < count; ++i) threads[ready[i]].knowledge.view = all;
  }
  const bool here = current >= 0 && threads[current].state == State::ready;
  if (style().by_priority) {
    if (let_go && here) threads[current].priority = --lowest;
    return static_cast<int>(*std::max_element(
        ready, ready + count, [](auto a, auto b) { return threads[a].priority < threads[b].priority; }));
  }
  if (here && !let_go && !chance(style().switches)) return current;
  return static_cast<int>(ready[choose(count)]);
}

void count_step() {
  if (++steps <= kMaxSteps) return;
  outcome.cut = true;
  leave();
}

void die() {
  Thread& self = threads[current];
  trace("dies");
  died = true;
  self.state = State::dead;
  orphan_locks(current, self.knowledge.view);
  switch_to(pick(false));
}

void fiber() {
  threads[current].body();
  if (current == 0) leave();
  threads[current].state = State::done;
  trace("ends");
  switch_to(pick(false));
}

void start(std::size_t i, const std::function<void()>& body) {
  Thread& self = threads[i];
  self.body = body;
  self.state = State::ready;
  self.operations = self.dies_at = 0;
  self.step = "";
  self.knowledge.begin(i == 0 ? View() : threads[0].knowledge.view);
  getcontext(&self.context);
  self.context.uc_stack.ss_sp = self.stack.get();
  self.context.uc_stack.ss_size = kStack;
  self.context.uc_link = nullptr;
  makecontext(&self.context, fiber, 0);
}

}  // namespace

Outcome run(const Options& options, const std::function<void()>& main) {
  given = &options;
  outcome = {};
  died = false;
  steps = 0;
  lowest = 0;
  falls.clear();
  for (std::uint64_t left = choose(5); left > 0; --left) falls.push_back(choose(usual_steps));
  thread_count = 1;
  current = 0;
  running = true;
  start(0, main);
  // setcontext() leads here as well.
  volatile bool begun = false;
  getcontext(&outside);
  if (!begun) {
    begun = true;
    setcontext(&threads[0].context);
  }
  running = false;
  current = -1;
  return outcome;
}

bool is_running() { return running; }
const Options& options() { return *given; }
Knowledge& mine() { return threads[current].knowledge; }
const char* step() { return threads[current].step; }

void before_operation() {
  count_step();
  if (current == 0) return;
  Thread& self = threads[current];
  if (++self.operations == self.dies_at) die();
  const bool now_falls = style().by_priority && std::erase(falls, steps) > 0;
  switch_to(pick(now_falls));
}

void trace(const char* format, ...) {
  if (!given->trace) return;
  std::printf("  %d %-3s ", current, threads[current].step);
  va_list values;
  va_start(values, format);
  std::vprintf(format, values);
  va_end(values);
  std::printf("\n");
}

}  // namespace model

using namespace model;

void thread(const std::function<void()>& body, bool may_die) {
  start(thread_count, body);
  Thread& self = threads[thread_count++];
  self.priority = static_cast<int>(choose(1000)) + 1;
  if (may_die && chance(0.7)) self.dies_at = 1 + choose(60);
}

void run_threads() {
  threads[0].state = State::waiting;
  const std::uint64_t before = steps;
  for (std::size_t i = 1; i < thread_count; ++i) threads[i].knowledge.view = threads[0].knowledge.view;
  for (auto& at : falls) at += before;
  switch_to(pick(false));
  usual_steps = (7 * usual_steps + (steps - before)) / 8 + 1;
}

void wait_for_all() {
  threads[current].state = State::waiting;
  switch_to(pick(false));
}

void yield() {
  if (!running || current == 0) return;
  count_step();
  switch_to(pick(true));
}

void fail(const std::string& what) {
  outcome.failure = what;
  trace("FAILS: %s", what.c_str());
  leave();
}

bool anybody_died() { return died; }
int me() { return current; }

}  // namespace weak

namespace rb {
void reached(const char* point) {
  using namespace weak::model;
  if (running && current >= 0) threads[current].step = point;
}
}  // namespace rb
