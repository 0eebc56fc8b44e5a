// A model of weak memory that runs executions of small concurrent programs under the C++ memory model, one after the
// other, with random choices determined by a seed.
//
// The model is operational, as in RC11 (Lahav et al. 2017) and loom (github.com/tokio-rs/loom):
// - A location has a history: its stores in modification order. A thread has a view: for each location the oldest store
//   that it may still read. A load reads any store from there on. A store goes anywhere after the view, so
//   modification order need not be the order of execution, but never between a read-modify-write and the store it read.
// - A release store carries its thread's view, and an acquire load joins it to its own. Read-modify-writes continue
//   release sequences. A fence makes the loads before it acquire loads, and the stores after it release stores.
// - Sequentially consistent operations have a total order S that agrees with happens-before and with the modification
//   order of each word; it need not be the order of execution. Fences share one more view, in that order.
// Threads are fibers, switched at each operation on shared memory; locks are sequentially consistent.
// Its parts: histories.hpp, then knowledge.hpp (what views allow), total_order.hpp (S), locks.hpp, threads.hpp,
// choices.hpp and sites.hpp; model.cpp has the operations, which use all of them.
//
// Not explored: executions with a cycle of program order and reads-from ("out of thin air", and load buffering), and
// spurious failures of compare_exchange_weak.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>
#include <vector>

namespace weak {

using Where = std::source_location;

// What an operation orders. std::memory_order in bits: each of them can be taken away.
struct Order {
  bool acquire = false, release = false, consistent = false;
};
Order order_of(std::memory_order order);

// Operations; `at` is a word of `bytes` bytes. Outside the shared memory they are plain ones.
std::uint64_t load(const void* at, std::size_t bytes, std::memory_order order, Where where);
void store(void* at, std::size_t bytes, std::uint64_t value, std::memory_order order, Where where);
bool compare_exchange(void* at, std::size_t bytes, std::uint64_t& expected, std::uint64_t value,
                      std::memory_order success, std::memory_order failure, Where where);
std::uint64_t fetch_add(void* at, std::size_t bytes, std::uint64_t value, std::memory_order order, Where where);
void fence(std::memory_order order, Where where);
void yield();
// As the pthread functions; a lock whose holder died returns EOWNERDEAD.
int try_lock(void* mutex);
int unlock(void* mutex);

// The one piece of memory that is shared; all of it, and no other. What is written there during an execution is in the
// histories alone, so that each execution begins with what was there before the first.
void share(char* memory, std::size_t bytes);

// One execution. main() runs first, alone: it makes threads by thread(), which then run until they end, and begins
// again after run_threads(), having seen all that they did.
struct Options {
  std::uint64_t seed = 1;
  bool trace = false;
  std::function<std::string(const void*)> name;  // of a word, for the trace
};
struct Outcome {
  std::string failure;  // empty: none
  bool cut = false;     // too many steps
};
Outcome execute(const Options& options, const std::function<void()>& main);

void thread(const std::function<void()>& body, bool may_die = false);
void run_threads();
// Waits until all other threads have ended, died, or wait here as well; then what they did is seen.
void wait_for_all();
// Ends the execution.
[[noreturn]] void fail(const std::string& what);
bool anybody_died();
std::uint64_t choose(std::uint64_t count);  // a number below
int me();

// The stores to a word in modification order.
std::vector<std::uint64_t> history(const void* at);

// Operations as the source has them, and those of them that are weakened.
struct Site {
  std::string file, function, kind;
  unsigned line = 0, column = 0;
  std::string region;  // which part of the memory: a line that copies is one for rows and another for frames
  Order order, on_failure;
  std::vector<std::string> steps;  // of docs/protocol.md, as far as they were seen
};
const std::vector<Site>& sites();
void regions(const std::function<const char*(const void*)>& of);
// `part`: acquire, release, consistent or failure; `region`: empty for all.
void weaken(const std::string& file, unsigned line, unsigned column, const std::string& region,
            const std::string& part);

}  // namespace weak
