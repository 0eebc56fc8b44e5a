// What is explored: each of them runs a few calls of the real store at once, and looks at what they leave.
#include "world.hpp"

namespace weak {
namespace {

using Store = World::Store;

// Rows of explorers and one reader.

void rows(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  world.add(*one, 100);
  thread([&] {
    world.add(*one, 200);
    world.add(*one, 300);
  });
  thread([&] { world.add(*two, 400); });
  thread([&] {
    for (int i = 0; i < 3; ++i) world.look(*reader);
  });
  run_threads();
  world.check_ring(*reader);
}

// Two rows in a call, two explorers on one seat.
void calls(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  for (const auto& each : {&one, &two}) (*each)->seat_.store(1);
  thread([&] { world.add(*one, 100, 3); });
  thread([&] {
    world.add(*two, 400, 2);
    world.add(*two, 500);
  });
  thread([&] {
    for (int i = 0; i < 2; ++i) world.look(*reader);
  });
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

// A learner's tree.

void tree(const World& world) {
  const Store one = world.attach(), two = world.attach(), learner = world.attach();
  world.add(*one, 100);
  learner->view().catch_up();
  thread([&] {
    world.add(*one, 200, 2);
    world.add(*one, 300);
  });
  thread([&] { world.add(*two, 400, 2); });
  thread([&] {
    rb::Drawn drawn;
    for (int i = 0; i < 3; ++i) {
      const auto ids = world.sample(*learner, drawn);
      for (std::size_t k = 0; k < ids.size(); ++k)
        if (ids[k] != 0 && static_cast<float>(ids[k]) != drawn.leaves[k]) fail("a row drawn by another's priority");
    }
    wait_for_all();
    world.check_tree(*learner);
  });
  run_threads();
  world.check_ring(*learner);
}

void tree_and_deaths(const World& world) {
  const Store one = world.attach(), two = world.attach(), three = world.attach(), learner = world.attach();
  learner->view().catch_up();
  thread([&] { world.add(*one, 200, 2); }, true);
  thread([&] { world.add(*two, 400, 2); }, true);
  thread([&] {
    for (int i = 0; i < 2; ++i) learner->view().catch_up();
    wait_for_all();
    world.check_tree(*learner);
    static_cast<void>(three->stored());  // buries
    world.check_tree(*learner);
    world.add(*three, 800, world.setting.capacity);
    world.check_tree(*learner);
  });
  run_threads();
  world.check_ring(*learner);
}

// Another process buries a dead one while the learner looks.
void tree_and_burying(const World& world) {
  const Store one = world.attach(), two = world.attach(), learner = world.attach();
  learner->view().catch_up();
  for (const auto& each : {&one, &two}) (*each)->seat_.store(1);
  thread([&] { world.add(*one, 200, 2); }, true);
  thread([&] {
    static_cast<void>(two->stored());
    world.add(*two, 400);
  });
  thread([&] {
    for (int i = 0; i < 3; ++i) learner->view().catch_up();
    wait_for_all();
    world.check_tree(*learner);
  });
  run_threads();
  world.check_ring(*learner);
}

// Learners that change priorities.

void journal(const World& world) {
  const Store explorer = world.attach(), one = world.attach(), two = world.attach();
  world.add(*explorer, 100, world.setting.capacity);
  const auto learn = [&](rb::SharedStore& learner, float leaf) {
    return [&, leaf] {
      rb::Drawn drawn;
      world.sample(learner, drawn);
      world.update(learner, drawn, leaf);
      learner.view().catch_up();
      wait_for_all();
      world.check_tree(learner);
    };
  };
  one->view().catch_up();
  thread(learn(*one, 7));
  thread(learn(*two, 8));
  thread([&] { world.add(*explorer, 200); });
  run_threads();
  world.check_ring(*one);
}

// Both have joined before.
void journal_of_two(const World& world) {
  const Store explorer = world.attach(), one = world.attach(), two = world.attach();
  world.add(*explorer, 100, world.setting.capacity);
  one->view().catch_up();
  two->view().catch_up();
  thread([&] {
    rb::Drawn drawn;
    for (const float leaf : {7.0f, 9.0f}) {
      world.sample(*one, drawn);
      world.update(*one, drawn, leaf);
    }
    wait_for_all();
    world.check_tree(*one);
  });
  thread([&] {
    rb::Drawn drawn;
    for (int i = 0; i < 3; ++i) two->view().catch_up();
    world.sample(*two, drawn);
    world.update(*two, drawn, 8);
    wait_for_all();
    world.check_tree(*two);
  });
  run_threads();
  world.check_ring(*one);
}

// A learner joins while another changes what it has sampled.
void joining(const World& world) {
  const Store explorer = world.attach(), one = world.attach(), two = world.attach();
  world.add(*explorer, 100, world.setting.capacity);
  rb::Drawn drawn;
  world.sample(*one, drawn);
  thread([&] { world.update(*one, drawn, 7); });
  thread([&] {
    two->view().catch_up();
    wait_for_all();
    world.check_tree(*two);
  });
  run_threads();
}

// Two join at once while a third changes what it has sampled; then one of them changes it.
void joining_at_once(const World& world) {
  const Store explorer = world.attach(), one = world.attach(), two = world.attach(), three = world.attach();
  world.add(*explorer, 100, world.setting.capacity);
  rb::Drawn drawn;
  world.sample(*one, drawn);
  const auto check = [&](rb::SharedStore& learner) {
    wait_for_all();
    world.check_tree(learner);
  };
  thread([&] {
    world.update(*one, drawn, 7);
    check(*one);
  });
  thread([&] {
    // Its own change would tell the third what the first one changed.
    choose(2) == 0 ? world.change(*two, 0, 8) : two->view().catch_up();
    check(*two);
  });
  thread([&] {
    three->view().catch_up();
    check(*three);
  });
  run_threads();
}

// One is slow while another writes more than half a journal; a third looks, is passed over, and joins again.
void journal_lapped(const World& world) {
  const Store explorer = world.attach(), one = world.attach(), two = world.attach(), three = world.attach();
  world.add(*explorer, 100, world.setting.capacity);
  const std::size_t last = world.setting.capacity - 1;
  rb::Drawn drawn;
  world.sample(*one, drawn);
  two->view().catch_up();
  three->view().catch_up();
  const auto check = [&](rb::SharedStore& learner) {
    wait_for_all();
    world.check_tree(learner);
  };
  thread([&] {
    world.update(*one, drawn, 7);
    check(*one);
  });
  thread([&] {
    for (std::uint64_t i = 0; i <= world.setting.journal / 2 + 1; ++i)
      world.change(*two, last, 10 + static_cast<float>(i));
    check(*two);
  });
  thread([&] {
    for (int i = 0; i < 2; ++i) three->view().catch_up();
    check(*three);
  });
  run_threads();
}

// One that is killed has announced what it changes.
void journal_killed(const World& world) {
  const Store explorer = world.attach(), one = world.attach(), two = world.attach();
  world.add(*explorer, 100, world.setting.capacity);
  rb::Drawn drawn;
  world.sample(*one, drawn);
  two->view().catch_up();
  thread([&] { world.update(*one, drawn, 7); }, true);
  thread([&] {
    for (int i = 0; i < 2; ++i) two->view().catch_up();
    wait_for_all();
    world.check_tree(*two);
  });
  run_threads();
}

// The largest priority.

void largest(const World& world) {
  const Store one = world.attach(), learner = world.attach();
  world.add(*one, 100, 1, 1);
  learner->view().catch_up();
  thread([&] { world.add(*one, 200, 1, 5, 5); });
  thread([&] {
    const double known = learner->max_priority();
    if (known == 5 && learner->largest_leaf() != 5) fail("a largest priority whose row isn't there");
    wait_for_all();
    if (learner->max_priority() < static_cast<double>(learner->largest_leaf())) fail("the largest priority is too low");
  });
  run_threads();
}

// It falls while an explorer brings a row as large as it was: as Ring::let_max_priority_fall().
void largest_falls(const World& world) {
  const Store one = world.attach(), learner = world.attach();
  world.add(*one, 100, 1, 1);
  one->raise_max_priority(5);
  learner->view().catch_up();
  thread([&] { world.add(*one, 200, 1, 5, 5); });
  thread([&] {
    const double known = learner->max_priority();
    const float leaf = learner->largest_leaf();
    if (leaf < 5) {
      learner->lower_max_priority(known, static_cast<double>(leaf));
      if (const float now = learner->largest_leaf(); now > leaf) learner->raise_max_priority(static_cast<double>(now));
    }
    wait_for_all();
    if (learner->max_priority() < static_cast<double>(learner->largest_leaf())) fail("the largest priority is too low");
  });
  run_threads();
}

// Clearing.

void clearing(const World& world) {
  const Store one = world.attach(), two = world.attach(), learner = world.attach();
  world.add(*one, 100, world.setting.capacity);
  one->raise_max_priority(5);
  learner->view().catch_up();
  thread([&] { world.add(*one, 200, 2, 3, 3); });
  thread([&] {
    two->clear();
    world.add(*two, 300, 1, 2, 2);
  });
  thread([&] {
    for (int i = 0; i < 2; ++i) {
      learner->view().catch_up();
      world.look(*learner);
    }
    wait_for_all();
    world.check_tree(*learner);
    if (learner->max_priority() < static_cast<double>(learner->largest_leaf())) fail("the largest priority is too low");
  });
  run_threads();
  world.check_ring(*learner);
}

// Frames.

void frames(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  world.add(*one, 100, 1);
  world.add(*one, 200, 1);
  world.add(*one, 300, 1);
  thread([&] {
    world.add(*one, 400);
    world.add(*one, 500);
    world.add(*one, 600);
    world.add(*one, 700);
  });
  thread([&] {
    for (int i = 0; i < 4; ++i) world.look(*reader);
  });
  run_threads();
  world.check_ring(*reader);
}

void frames_of_two(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  for (Id id = 100; id <= 300; id += 100) {
    world.add(*one, id);
    world.add(*two, id + 1000);
  }
  thread([&] {
    world.add(*one, 400);
    world.add(*one, 500);
  });
  thread([&] {
    world.add(*two, 1400);
    world.add(*two, 1500);
  });
  thread([&] {
    for (int i = 0; i < 3; ++i) world.look(*reader);
  });
  run_threads();
  world.check_ring(*reader);
}

void frames_and_deaths(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  for (Id id = 100; id <= 300; id += 100) world.add(*one, id);
  for (const auto& each : {&one, &two}) (*each)->seat_.store(1);
  thread([&] { world.add(*one, 400, 3); }, true);
  thread([&] {
    world.add(*two, 700, 2);
    world.add(*two, 900);
  });
  thread([&] {
    for (int i = 0; i < 3; ++i) world.look(*reader);
  });
  run_threads();
  world.check_ring(*reader);
  world.add(*two, 2000, world.setting.capacity);
  world.check_ring(*reader);
}

// Who buries a dead explorer adds nothing; another process uses its chunk again.
void frames_buried(const World& world) {
  const Store one = world.attach(), two = world.attach(), three = world.attach(), reader = world.attach();
  thread([&] { world.add(*one, 100); }, true);
  thread([&] { static_cast<void>(two->stored()); });
  thread([&] {
    for (Id id = 400; id <= 800; id += 100) world.add(*three, id);
  });
  run_threads();
  world.look(*reader);
}

// An explorer is stopped between E3 and E4: a row stays in its slot although it is over, and its chunk is used again.
void frames_over(const World& world) {
  const Store one = world.attach(), two = world.attach(), three = world.attach(), reader = world.attach();
  for (Id id = 100; id <= 300; id += 100) world.add(*one, id);  // the chunk of rows 0 and 1 is closed
  constexpr std::size_t kSeat = 200;
  one->header_->seats[kSeat].lock.try_lock();
  thread([&] {
    rb::Waiting waiting;
    one->claim(kSeat, 1, 0, waiting);
    world.add(*two, 400);
  });
  thread([&] { world.add(*three, 500, 2); });  // stores all frames before it claims a row
  thread([&] {
    for (int i = 0; i < 2; ++i) world.look(*reader, 1);
  });
  run_threads();
  world.look(*reader);
}

// There is no memory for all frames of a call: what it wrote is taken back, and its chunk used by another.
void frames_taken_back(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  thread([&] {
    allocations_left = 1;
    try {
      world.add(*one, 100, 4);
    } catch (const std::bad_alloc&) {
    }
    allocations_left = -1;
  });
  thread([&] {
    world.add(*two, 400);
    world.add(*two, 500);
  });
  thread([&] {
    for (int i = 0; i < 2; ++i) world.look(*reader);
  });
  run_threads();
  world.check_ring(*reader);
}

// A chunk is used again by another explorer, once the first one has come round.
void frames_again(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  for (Id id = 100; id <= 200; id += 100) world.add(*one, id);
  thread([&] {
    for (Id id = 300; id <= 600; id += 100) world.add(*one, id);
  });
  thread([&] { world.add(*two, 1400, 2); });
  run_threads();
  world.check_ring(*reader);
}

// Rows are counted meanwhile: what is remembered of holes must not be wrong later.
void counting(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  world.add(*one, 100);
  for (const auto& each : {&one, &two}) (*each)->seat_.store(1);
  thread([&] { world.add(*one, 200, 2); }, true);
  thread([&] {
    world.add(*two, 300, world.setting.capacity + 1);
    world.add(*two, 400);
  });
  thread([&] {
    for (int i = 0; i < 3; ++i)
      if (reader->stored() > world.setting.capacity) fail("more rows are counted than there can be");
    wait_for_all();
    world.check_ring(*reader);
  });
  run_threads();
  world.check_ring(*reader);
}

// A row is over, for a dead explorer has claimed another for its slot, and a third buries that one meanwhile.
void counting_buried(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  world.add(*one, 100, world.setting.capacity);
  thread([&] {
    rb::Seat& seat = one->header_->seats[0];
    rb::Waiting waiting;
    seat.lock.try_lock();
    one->claim(0, 1, 0, waiting);
    seat.lock.unlock();  // as if it had died
  });
  thread([&] { static_cast<void>(two->stored()); });
  thread([&] {
    for (int i = 0; i < 2; ++i) static_cast<void>(reader->stored());
    wait_for_all();
    world.check_ring(*reader);
  });
  run_threads();
  world.check_ring(*reader);
}

// Lapped explorers: what isn't there must not be counted.
void frames_lapped(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  world.add(*one, 100, world.setting.capacity);
  thread([&] { world.add(*one, 200); });
  thread([&] { world.add(*two, 300, world.setting.capacity + 1); });
  run_threads();
  world.check_ring(*reader);
}

// Locks: while a learner is inside, no explorer is.
void critical(const World& world) {
  const Store one = world.attach(), two = world.attach(), learner = world.attach();
  world.add(*one, 100, world.setting.capacity);
  const auto inside = [&](rb::SharedStore& store) {
    rb::Waiting waiting;
    const rb::LearnerTurn turn(store, waiting);
    const auto ids = world.look(store), again = world.look(store);
    if (std::count(ids.begin(), ids.end(), 0) != 0 || ids != again) fail("a learner and an explorer are both inside");
  };
  thread([&] { world.add(*one, 200, 2); });
  thread([&] {
    inside(*learner);
    inside(*learner);
  });
  thread([&] { world.add(*two, 400); });
  run_threads();
  world.check_ring(*learner);
}

// Two explorers come to a seat that was never used.
void critical_new_seat(const World& world) {
  const Store one = world.attach(), two = world.attach(), learner = world.attach();
  world.add(*learner, 100, world.setting.capacity);
  for (const auto& each : {&one, &two}) (*each)->seat_.store(1), (*each)->no_free_seat_.store(true);
  thread([&] { world.add(*one, 200, 2); });
  thread([&] { world.add(*two, 400); });
  thread([&] {
    rb::Waiting waiting;
    const rb::LearnerTurn turn(*learner, waiting);
    const auto ids = world.look(*learner), again = world.look(*learner);
    if (std::count(ids.begin(), ids.end(), 0) != 0 || ids != again) fail("a learner and an explorer are both inside");
  });
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
      {"tree-buried", {.capacity = 2, .prioritized = true}, tree_and_burying},
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
      {"frames-buried", {.capacity = 1, .framed = true}, frames_buried},
      {"frames-over", {.capacity = 2, .framed = true}, frames_over},
      {"frames-taken-back", {.capacity = 4, .framed = true}, frames_taken_back},
      {"frames-again", {.capacity = 1, .framed = true}, frames_again},
      {"counting-1", {.capacity = 1}, counting},
      {"counting-2", {.capacity = 2}, counting},
      {"counting-frames", {.capacity = 2, .framed = true}, counting},
      {"counting-buried", {.capacity = 2, .framed = true}, counting_buried},
      {"frames-lapped", {.capacity = 1, .framed = true}, frames_lapped},
      {"frames-lapped-2", {.capacity = 2, .framed = true}, frames_lapped},
      {"frames-tree", {.capacity = 2, .prioritized = true, .framed = true}, tree},
      {"critical", {.capacity = 1, .discipline = kCritical}, critical},
      {"critical-2", {.capacity = 2, .discipline = kCritical}, critical},
      {"critical-new-seat", {.capacity = 1, .discipline = kCritical}, critical_new_seat},
      {"buffer", {.capacity = 2, .discipline = kBuffer}, critical},
  };
  return all;
}

}  // namespace weak
