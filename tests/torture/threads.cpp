// The real core under threads, for ThreadSanitizer (.ci/thread-sanitizer): four explorers and two learners on one ring,
// in each lock discipline, with and without priorities, with narrow rows, with wide rows, and with frames stored once.
// Argument: seconds for each setting. Rows certify themselves: every word of a row is its id, except in frames, where
// all words of frame j are id + j, and id + 1 + j in the next stack.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "../../cpprb_impl/core/shared/shared_store.hpp"

namespace {

using Id = std::uint64_t;

struct Setting {
  rb::Discipline discipline;
  bool prioritized;
  std::size_t words;  // of the wide field, and of what is next to it
  bool framed;
};

constexpr std::size_t kFrames = 4;  // in a stack

constexpr std::size_t kCapacity = 64;
constexpr std::size_t kBatch = 16;

// Fields of a row: its id, many words, one byte, and those words of the next row.
std::unique_ptr<rb::Rows> rows_of(const Setting& setting) {
  rb::FieldStorage wide{.bytes = setting.words * sizeof(Id), .alignment = 8};
  if (setting.framed) {
    wide.framed = true;
    wide.shape = {kFrames, setting.words / kFrames, sizeof(Id)};
  }
  rb::FieldStorage next = wide;
  if (setting.framed) next.next_of = 1;
  const std::vector<rb::FieldStorage> fields{
      {.bytes = sizeof(Id), .alignment = 8}, wide, {.bytes = 1, .alignment = 1}, next};
  return std::make_unique<rb::Rows>(fields, rb::SharedStore::front(setting.prioritized, false));
}

// So many rows, field by field.
struct Columns {
  std::size_t words;
  bool framed;
  std::vector<Id> ids, wide, next;
  std::vector<unsigned char> bytes;

  Columns(std::size_t count, const Setting& setting)
      : words(setting.words), framed(setting.framed), ids(count), wide(count * words), next(wide), bytes(count) {}
  Id word(Id id, std::size_t k) const { return framed ? id + k % kFrames : id; }
  void fill(Id first) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = first + i;
      bytes[i] = static_cast<unsigned char>(first + i);
      for (std::size_t k = 0; k < words; ++k) {
        wide[i * words + k] = word(first + i, k);
        next[i * words + k] = word(first + i + 1, k);
      }
    }
  }
  bool is_torn(std::size_t i) const {
    bool torn = ids[i] == 0 || bytes[i] != static_cast<unsigned char>(ids[i]);
    for (std::size_t k = 0; k < words; ++k)
      torn |= wide[i * words + k] != word(ids[i], k) || next[i * words + k] != word(ids[i] + 1, k);
    return torn;
  }
  std::vector<char*> places() {
    return {reinterpret_cast<char*>(ids.data()), reinterpret_cast<char*>(wide.data()),
            reinterpret_cast<char*>(bytes.data()), reinterpret_cast<char*>(next.data())};
  }
};

struct Counts {
  std::atomic<long> added{0}, read{0}, torn{0}, given_up{0};
};

void explore(rb::SharedStore& store, const Setting& setting, int me, const std::atomic<bool>& stop, Counts& counts) {
  rb::Waiting waiting;
  Id next = static_cast<Id>(me + 1) << 40;
  for (std::size_t calls = 0; !stop; ++calls) {
    const std::size_t count = calls % 2 ? 1 : 5;
    Columns columns(count, setting);
    columns.fill(next);
    const auto places = columns.places();
    const std::vector<float> leaves(count, 1.0f + static_cast<float>(calls % 7));
    const double largest = setting.prioritized ? 1.0 + static_cast<double>(calls % 7) : 0;
    store.add({places.data(), count, leaves.data(), 1.0f, largest}, waiting);
    next += count;
    counts.added += static_cast<long>(count);
  }
}

void look(rb::SharedStore& store, rb::Sampler& sampler, const Setting& setting, Columns& columns, rb::Drawn& drawn,
          rb::Random& random, Counts& counts) {
  rb::Waiting waiting;
  const rb::LearnerGuard guard(store, waiting);
  const auto places = columns.places();
  drawn.slots.resize(kBatch);
  if (sampler.sample(random, drawn, places.data(), waiting) != rb::Found::rows) return;
  for (std::size_t i = 0; i < kBatch; ++i) counts.torn += columns.is_torn(i);
  counts.read += kBatch;
  if (!setting.prioritized) return;
  const std::vector<std::int64_t> index(drawn.slots.begin(), drawn.slots.end());
  std::vector<float> leaves(kBatch, 2.0f);
  store.update(index.data(), kBatch, leaves.data(), 2.0, drawn.sample);
  store.lower_max_priority(store.max_priority(), store.largest_leaf());
}

void learn(rb::SharedStore& store, const Setting& setting, int me, const std::atomic<bool>& stop, Counts& counts) {
  rb::Waiting waiting;
  rb::Random random(static_cast<std::uint64_t>(me));
  rb::Drawn drawn;
  const auto sampler = setting.prioritized ? rb::make_prioritized_sampler(store) : rb::make_uniform_sampler(store);
  Columns batch(kBatch, setting), all(kCapacity, setting);
  for (std::size_t calls = 1; !stop; ++calls) {
    try {
      look(store, *sampler, setting, batch, drawn, random, counts);
    } catch (const std::runtime_error&) {
      ++counts.given_up;
    }
    const rb::LearnerGuard turn(store, waiting);
    if (calls % 16 == 0) {
      const std::size_t rows = store.read_stored(store.stored_slots(), all.places().data(), waiting);
      for (std::size_t i = 0; i < rows; ++i) counts.torn += all.is_torn(i);
      counts.read += static_cast<long>(rows);
    }
    if (calls % 64 == 0) static_cast<void>(store.stored());
    if (calls % 256 == 0) store.clear();
  }
}

const char* name_of(rb::Discipline discipline) {
  return discipline == rb::Discipline::none ? "none" : discipline == rb::Discipline::buffer ? "buffer" : "critical";
}

// Whether nothing was torn, and something was read.
bool run(const Setting& setting, double seconds) {
  const rb::SharedStore::Shape shape{kCapacity, setting.prioritized, setting.discipline};
  rb::SharedStore maker(rows_of(setting), shape);
  std::atomic<bool> stop{false};
  Counts counts;
  {
    std::vector<std::unique_ptr<rb::SharedStore>> stores;  // one each, as each process has its own
    std::vector<std::jthread> threads;
    for (int me = 0; me < 6; ++me) {
      stores.push_back(std::make_unique<rb::SharedStore>(rows_of(setting), shape, maker.name()));
      auto& store = *stores.back();
      threads.emplace_back(
          [&, me] { me < 4 ? explore(store, setting, me, stop, counts) : learn(store, setting, me, stop, counts); });
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop = true;
    threads.clear();
  }
  std::printf("%-8s %-11s %-6s rows of %5zu bytes: %9ld added, %9ld read, %ld torn, gave up %ld times\n",
              name_of(setting.discipline), setting.prioritized ? "prioritized" : "uniform",
              setting.framed ? "framed" : "whole", (2 * setting.words + 1) * sizeof(Id) + 1, counts.added.load(),
              counts.read.load(), counts.torn.load(), counts.given_up.load());
  std::fflush(stdout);
  return counts.torn == 0 && counts.read > 0;
}

}  // namespace

int main(int, char** arguments) {
  const double seconds = std::atof(arguments[1]);
  bool good = true;
  for (const auto discipline : {rb::Discipline::none, rb::Discipline::critical, rb::Discipline::buffer})
    for (const bool prioritized : {false, true})
      for (const auto& [words, framed] : {std::pair{4, false}, {600, false}, {16, true}, {600, true}})
        good &= run({discipline, prioritized, static_cast<std::size_t>(words), framed}, seconds);
  return good ? 0 : 1;
}
