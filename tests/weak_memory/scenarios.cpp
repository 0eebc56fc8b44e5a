// The scenarios: each runs a few calls of the real store concurrently, and checks the resulting state.
#include "scenarios.hpp"

namespace weak {
namespace {

using Store = World::Store;

// Rows of explorers and one reader.

void rows(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  world.add(*one, 100);
  thread([&] { world.add_each(*one, 200, 300); });
  thread([&] { world.add(*two, 400); });
  thread_that_looks(world, *reader, 3);
  run_threads();
  world.check_ring(*reader);
}

// Two rows in a call, two explorers on one registration.
void calls(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  share_registration(one, two);
  thread([&] { world.add(*one, 100, 3); });
  thread([&] {
    world.add(*two, 400, 2);
    world.add(*two, 500);
  });
  thread_that_looks(world, *reader, 2);
  run_threads();
  world.check_ring(*reader);
}

void rows_and_deaths(const World& world) {
  const Store one = world.attach(), two = world.attach(), three = world.attach(), reader = world.attach();
  world.add(*one, 100);
  thread([&] { world.add(*one, 200, 2); }, true);
  thread([&] { world.add(*two, 400, 2); }, true);
  thread([&] {
    world.add(*three, 600);
    world.look(*reader);
    world.add(*three, 700);
    world.look(*reader);
  });
  run_threads();
  world.check_ring(*reader);
  // The ring can be used all round.
  world.add(*three, 800, world.setting.capacity);
  const auto ids = world.look(*reader);
  if (std::count(ids.begin(), ids.end(), 0) != 0) fail("a slot can't be used again");
}

// Clearing.

void clearing(const World& world) {
  const Store one = world.attach(), two = world.attach(), learner = world.attach();
  world.add(*one, 100, world.setting.capacity);
  one->raise_max_priority(5);
  learner->priorities().catch_up();
  thread([&] { world.add(*one, 200, 2, 3, 3); });
  thread([&] {
    two->clear();
    world.add(*two, 300, 1, 2, 2);
  });
  thread([&] {
    for (int i = 0; i < 2; ++i) {
      learner->priorities().catch_up();
      world.look(*learner);
    }
    wait_for_all();
    world.check_tree(*learner);
    if (learner->max_priority() < static_cast<double>(learner->largest_leaf())) fail("the largest priority is too low");
  });
  run_threads();
  world.check_ring(*learner);
}

// Locks.

// A learner's turn: while it is inside, no explorer is.
void take_turn(const World& world, rb::SharedStore& learner) {
  rb::Waiting waiting;
  const rb::LearnerGuard turn(learner, waiting);
  const auto ids = world.look(learner), again = world.look(learner);
  if (std::count(ids.begin(), ids.end(), 0) != 0 || ids != again) fail("a learner and an explorer are both inside");
}

void critical(const World& world) {
  const Store one = world.attach(), two = world.attach(), learner = world.attach();
  world.add(*one, 100, world.setting.capacity);
  thread([&] { world.add(*one, 200, 2); });
  thread([&] {
    take_turn(world, *learner);
    take_turn(world, *learner);
  });
  thread([&] { world.add(*two, 400); });
  run_threads();
  world.check_ring(*learner);
}

// Two explorers come to a registration that was never used.
void critical_new_registration(const World& world) {
  const Store one = world.attach(), two = world.attach(), learner = world.attach();
  world.add(*learner, 100, world.setting.capacity);
  for (const auto& each : {&one, &two}) (*each)->registration_.store(1), (*each)->no_free_registration_.store(true);
  thread([&] { world.add(*one, 200, 2); });
  thread([&] { world.add(*two, 400); });
  thread([&] { take_turn(world, *learner); });
  run_threads();
  world.check_ring(*learner);
}

constexpr auto kCritical = rb::Discipline::critical, kBuffer = rb::Discipline::buffer;

}  // namespace

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all{
      {"rows-1", {.capacity = 1}, rows},
      {"rows-2", {.capacity = 2}, rows},
      {"calls-1", {.capacity = 1}, calls},
      {"calls-2", {.capacity = 2}, calls},
      {"rows-dead-1", {.capacity = 1}, rows_and_deaths},
      {"rows-dead-2", {.capacity = 2}, rows_and_deaths},
      {"tree-1", {.capacity = 1, .prioritized = true}, tree},
      {"tree-2", {.capacity = 2, .prioritized = true}, tree},
      {"tree-4", {.capacity = 4, .prioritized = true}, tree},
      {"tree-dead", {.capacity = 2, .prioritized = true}, tree_and_deaths},
      {"tree-reclaimed", {.capacity = 2, .prioritized = true}, tree_and_reclaiming},
      {"journal-1", {.capacity = 1, .prioritized = true}, journal},
      {"journal-2", {.capacity = 2, .prioritized = true}, journal},
      {"journal-of-two", {.capacity = 1, .prioritized = true}, journal_of_two},
      {"joining", {.capacity = 1, .prioritized = true}, joining},
      {"joining-at-once", {.capacity = 1, .prioritized = true}, joining_at_once},
      {"journal-lapped", {.capacity = 2, .prioritized = true, .journal = 8}, journal_lapped},
      {"journal-batch", {.capacity = 3, .prioritized = true, .journal = 16}, journal_lapped},
      {"journal-killed", {.capacity = 2, .prioritized = true}, journal_killed},
      {"largest", {.capacity = 2, .prioritized = true}, largest},
      {"largest-falls", {.capacity = 2, .prioritized = true}, largest_falls},
      {"clearing", {.capacity = 2, .prioritized = true}, clearing},
      {"frames-1", {.capacity = 1, .framed = true}, frames},
      {"frames-2", {.capacity = 2, .framed = true}, frames},
      {"frames-of-two", {.capacity = 1, .framed = true}, frames_of_two},
      {"frames-of-two-2", {.capacity = 2, .framed = true}, frames_of_two},
      {"frames-dead", {.capacity = 1, .framed = true}, frames_and_deaths},
      {"frames-reclaimed", {.capacity = 1, .framed = true}, frames_reclaimed},
      {"frames-over", {.capacity = 2, .framed = true}, frames_over},
      {"frames-undone", {.capacity = 4, .framed = true}, frames_undone},
      {"frames-again", {.capacity = 1, .framed = true}, frames_again},
      {"counting-1", {.capacity = 1}, counting},
      {"counting-2", {.capacity = 2}, counting},
      {"counting-frames", {.capacity = 2, .framed = true}, counting},
      {"counting-reclaimed", {.capacity = 2, .framed = true}, counting_reclaimed},
      {"frames-lapped", {.capacity = 1, .framed = true}, frames_lapped},
      {"frames-lapped-2", {.capacity = 2, .framed = true}, frames_lapped},
      {"frames-tree", {.capacity = 2, .prioritized = true, .framed = true}, tree},
      {"sequences-2", {.capacity = 2, .linked = true}, sequences},
      {"sequences-3", {.capacity = 3, .linked = true}, sequences},
      {"sequences-4", {.capacity = 4, .prioritized = true, .linked = true}, sequences},
      {"sequences-lapped", {.capacity = 3, .linked = true}, sequences_lapped},
      {"sequences-dead", {.capacity = 3, .linked = true}, sequences_and_deaths},
      {"critical", {.capacity = 1, .discipline = kCritical}, critical},
      {"critical-2", {.capacity = 2, .discipline = kCritical}, critical},
      {"critical-new-registration", {.capacity = 1, .discipline = kCritical}, critical_new_registration},
      {"buffer", {.capacity = 2, .discipline = kBuffer}, critical},
  };
  return all;
}

}  // namespace weak
