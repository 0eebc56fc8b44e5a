// Scenarios of sequences: explorers add the steps of their streams, and a reader follows the links between them.
#include "scenarios.hpp"

namespace weak {
namespace {

// A process that adds the steps of one stream.
class Explorer {
 public:
  Explorer(const World& world, Id first)
      : world_(world), store_(world.attach()), links_(world.setting.capacity, 1, false), next_(first) {}

  void add(std::size_t count = 1) {
    world_.add_steps(*store_, links_, next_, count);
    next_ += count;
  }
  const World::Store& store() const { return store_; }

 private:
  const World& world_;
  World::Store store_;
  rb::StreamLinks links_;
  Id next_;
};

}  // namespace

void sequences(const World& world) {
  Explorer one(world, 100), two(world, 500);
  const World::Store reader = world.attach();
  one.add(2);
  two.add();
  thread([&] {
    one.add();
    one.add(2);
  });
  thread([&] {
    two.add();
    two.add();
  });
  thread([&] {
    for (int i = 0; i < 2; ++i) {
      world.look_at_sequences(*reader);
      reader->priorities().catch_up();
    }
    wait_for_all();
    world.check_tree(*reader);
  });
  run_threads();
  world.look_at_sequences(*reader);
  world.check_ring(*reader);
}

// A link may be read that is already a later row's: it then names a row that is no longer there.
void sequences_lapped(const World& world) {
  Explorer one(world, 100), two(world, 500);
  const World::Store reader = world.attach();
  one.add(2);
  two.add();
  thread([&] { one.add(3); });
  thread([&] {
    const auto rows = world.rows_of_sequence(*reader, 2);
    if (rows == std::vector<std::uint64_t>{2, 1}) fail("a sequence of rows of two streams");
  });
  run_threads();
  world.check_ring(*reader);
}

// A call that was killed leaves rows that end a run; its registration goes to another stream.
void sequences_and_deaths(const World& world) {
  Explorer one(world, 100), two(world, 500), three(world, 900);
  const World::Store reader = world.attach();
  share_registration(one.store(), two.store());
  one.add(2);
  thread([&] { one.add(2); }, true);
  thread([&] { two.add(2); }, true);
  thread([&] {
    three.add();
    world.look_at_sequences(*reader);
    three.add();
    world.look_at_sequences(*reader);
  });
  run_threads();
  world.check_ring(*reader);
  three.add(world.setting.capacity);
  world.look_at_sequences(*reader);
}

}  // namespace weak
