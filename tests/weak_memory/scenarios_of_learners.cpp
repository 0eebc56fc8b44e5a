// Priorities: trees, journals, the largest.
#include "scenarios.hpp"

namespace weak {

using Store = World::Store;

// A learner's tree.

void tree(const World& world) {
  const Store one = world.attach(), two = world.attach(), learner = world.attach();
  world.add(*one, 100);
  learner->priorities().catch_up();
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
  learner->priorities().catch_up();
  thread([&] { world.add(*one, 200, 2); }, true);
  thread([&] { world.add(*two, 400, 2); }, true);
  thread([&] {
    for (int i = 0; i < 2; ++i) learner->priorities().catch_up();
    wait_for_all();
    world.check_tree(*learner);
    static_cast<void>(three->stored());  // reclaims
    world.check_tree(*learner);
    world.add(*three, 800, world.setting.capacity);
    world.check_tree(*learner);
  });
  run_threads();
  world.check_ring(*learner);
}

// Another process reclaims a dead one while the learner looks.
void tree_and_reclaiming(const World& world) {
  const Store one = world.attach(), two = world.attach(), learner = world.attach();
  learner->priorities().catch_up();
  share_registration(one, two);
  thread([&] { world.add(*one, 200, 2); }, true);
  thread([&] {
    static_cast<void>(two->stored());
    world.add(*two, 400);
  });
  thread([&] {
    for (int i = 0; i < 3; ++i) learner->priorities().catch_up();
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
      learner.priorities().catch_up();
      wait_for_all();
      world.check_tree(learner);
    };
  };
  one->priorities().catch_up();
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
  one->priorities().catch_up();
  two->priorities().catch_up();
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
    for (int i = 0; i < 3; ++i) two->priorities().catch_up();
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
    two->priorities().catch_up();
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
    choose(2) == 0 ? world.change(*two, 0, 8) : two->priorities().catch_up();
    check(*two);
  });
  thread([&] {
    three->priorities().catch_up();
    check(*three);
  });
  run_threads();
}

// One is slow while another writes more than half a journal; a third looks, is evicted, and joins again.
void journal_lapped(const World& world) {
  const Store explorer = world.attach(), one = world.attach(), two = world.attach(), three = world.attach();
  world.add(*explorer, 100, world.setting.capacity);
  const std::size_t last = world.setting.capacity - 1;
  rb::Drawn drawn;
  world.sample(*one, drawn);
  two->priorities().catch_up();
  three->priorities().catch_up();
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
    for (int i = 0; i < 2; ++i) three->priorities().catch_up();
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
  two->priorities().catch_up();
  thread([&] { world.update(*one, drawn, 7); }, true);
  thread([&] {
    for (int i = 0; i < 2; ++i) two->priorities().catch_up();
    wait_for_all();
    world.check_tree(*two);
  });
  run_threads();
}

// The largest priority.

void largest(const World& world) {
  const Store one = world.attach(), learner = world.attach();
  world.add(*one, 100, 1, 1);
  learner->priorities().catch_up();
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
  learner->priorities().catch_up();
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

}  // namespace weak
