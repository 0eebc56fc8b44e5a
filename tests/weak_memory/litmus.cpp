// Litmus tests: the model must allow every outcome that C++ allows, and no other.
#include "litmus.hpp"

#include <array>
#include <cstdio>

#include "instrument.hpp"

namespace {

using std::memory_order_acq_rel, std::memory_order_acquire, std::memory_order_relaxed, std::memory_order_release,
    std::memory_order_seq_cst;
constexpr auto rlx = memory_order_relaxed, acq = memory_order_acquire, rel = memory_order_release,
               sc = memory_order_seq_cst;

using Word = std::atomic<std::uint64_t>;  // the one of model.hpp

alignas(8) std::array<Word, 2> words;
auto &x = words[0], &y = words[1];
std::array<std::uint64_t, 4> r;

struct Litmus {
  const char* name;
  bool possible;
  std::vector<std::function<void()>> threads;
  std::function<bool()> outcome;
};

std::uint64_t last(const Word& word) { return weak::history(&word).back(); }

std::function<void()> writes(std::memory_order first, std::memory_order second) {
  return [=] {
    x.store(1, first);
    y.store(1, second);
  };
}
std::function<void()> reads_back(std::memory_order first, std::memory_order second) {
  return [=] {
    r[0] = y.load(first);
    r[1] = x.load(second);
  };
}
std::function<void()> buffers(Word& mine, Word& other, std::size_t to, std::memory_order store, std::memory_order load,
                              bool fenced = false) {
  return [=, &mine, &other] {
    mine.store(1, store);
    if (fenced) std::atomic_thread_fence(sc);
    r[to] = other.load(load);
  };
}
std::function<void()> reads_both(Word& one, Word& two, std::size_t to, std::memory_order order) {
  return [=, &one, &two] {
    r[to] = one.load(order);
    r[to + 1] = two.load(order);
  };
}
std::function<void()> sets(Word& word, std::memory_order order) {
  return [=, &word] { word.store(1, order); };
}
std::function<void()> crosses(Word& one, Word& two, std::memory_order order) {
  return [=, &one, &two] {
    one.store(1, order);
    two.store(2, order);
  };
}
std::function<void()> overwrites(std::memory_order order) {
  return [=] {
    r[0] = y.load(order);
    x.store(2, rlx);
  };
}

std::vector<Litmus> all() {
  const auto passed = [] { return r[0] == 1 && r[1] == 0; };
  const auto missed = [] { return r[0] == 0 && r[1] == 0; };
  const auto disagree = [] { return r[0] == 1 && r[1] == 0 && r[2] == 1 && r[3] == 0; };
  const auto crossed = [] { return last(x) == 1 && last(y) == 1; };
  const auto under = [] { return r[0] == 1 && last(x) == 1; };
  const auto adds = [](std::memory_order order) { return [=] { y.fetch_add(1, order); }; };
  const auto fenced_writes = [] {
    x.store(1, rlx);
    std::atomic_thread_fence(rel);
    y.store(1, rlx);
  };
  const auto fenced_reads = [] {
    r[0] = y.load(rlx);
    std::atomic_thread_fence(acq);
    r[1] = x.load(rlx);
  };
  return {
      {"message passing, relaxed", true, {writes(rlx, rlx), reads_back(rlx, rlx)}, passed},
      {"message passing, release only", true, {writes(rlx, rel), reads_back(rlx, rlx)}, passed},
      {"message passing, acquire only", true, {writes(rlx, rlx), reads_back(acq, rlx)}, passed},
      {"message passing", false, {writes(rlx, rel), reads_back(acq, rlx)}, passed},
      {"message passing, fences", false, {fenced_writes, fenced_reads}, passed},
      {"message passing, a fence and an acquire", false, {fenced_writes, reads_back(acq, rlx)}, passed},
      {"release sequence, continued by another's addition",
       false,
       {writes(rlx, rel), adds(rlx), [] { r[0] = y.load(acq), r[1] = x.load(rlx); }},
       [] { return r[0] == 2 && r[1] == 0; }},
      {"release sequence, broken by another's store",
       true,
       {writes(rlx, rel),
        [] {
          if (y.load(rlx) == 1) y.store(2, rlx);
        },
        [] { r[0] = y.load(acq), r[1] = x.load(rlx); }},
       [] { return r[0] == 2 && r[1] == 0; }},
      {"store buffering, release and acquire", true, {buffers(x, y, 0, rel, acq), buffers(y, x, 1, rel, acq)}, missed},
      {"store buffering", false, {buffers(x, y, 0, sc, sc), buffers(y, x, 1, sc, sc)}, missed},
      {"store buffering, one load acquire", true, {buffers(x, y, 0, sc, acq), buffers(y, x, 1, sc, sc)}, missed},
      {"store buffering, fences", false, {buffers(x, y, 0, rlx, rlx, true), buffers(y, x, 1, rlx, rlx, true)}, missed},
      {"store buffering, a fence and consistent operations",
       false,
       {buffers(x, y, 0, rlx, rlx, true), buffers(y, x, 1, sc, sc)},
       missed},
      {"independent reads, acquire",
       true,
       {sets(x, rel), sets(y, rel), reads_both(x, y, 0, acq), reads_both(y, x, 2, acq)},
       disagree},
      {"independent reads",
       false,
       {sets(x, sc), sets(y, sc), reads_both(x, y, 0, sc), reads_both(y, x, 2, sc)},
       disagree},
      {"two writes each, release", true, {crosses(x, y, rel), crosses(y, x, rel)}, crossed},
      {"two writes each", false, {crosses(x, y, sc), crosses(y, x, sc)}, crossed},
      {"reads of one word", false, {sets(x, rlx), reads_both(x, x, 0, rlx)}, passed},
      {"a write under an older one, relaxed", true, {writes(rlx, rlx), overwrites(rlx)}, under},
      {"a write under an older one", false, {writes(rlx, rel), overwrites(acq)}, under},
      {"additions", false, {adds(rlx), adds(rlx)}, [] { return last(y) != 2; }},
      {"a store within an addition",
       false,
       {adds(rlx), [] { y.store(8, rlx); }},
       [] {
         const auto all = weak::history(&y);
         return all != std::vector<std::uint64_t>{0, 8, 9} && all != std::vector<std::uint64_t>{0, 1, 8};
       }},
  };
}

}  // namespace

bool litmus_tests(std::uint64_t executions) {
  weak::share(reinterpret_cast<char*>(words.data()), sizeof words);
  bool good = true;
  for (const Litmus& litmus : all()) {
    std::uint64_t seen = 0;
    for (std::uint64_t seed = 1; seed <= executions; ++seed) {
      r = {};
      weak::Options options;
      options.seed = seed;
      weak::execute(options, [&] {
        for (const auto& thread : litmus.threads) weak::thread(thread);
        weak::run_threads();
        seen += litmus.outcome();
      });
    }
    const bool right = (seen > 0) == litmus.possible;
    good &= right;
    std::printf("%-4s %-52s %s, seen %llu times\n", right ? "ok" : "FAIL", litmus.name,
                litmus.possible ? "possible" : "impossible", static_cast<unsigned long long>(seen));
  }
  return good;
}
