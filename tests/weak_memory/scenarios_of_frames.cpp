// Frames stored once, and the counting of rows.
#include "scenarios.hpp"

namespace weak {

using Store = World::Store;

// Frames.

void frames(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  world.add_each(*one, 100, 300);
  thread([&] { world.add_each(*one, 400, 700); });
  thread_that_looks(world, *reader, 4);
  run_threads();
  world.check_ring(*reader);
}

void frames_of_two(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  for (Id id = 100; id <= 300; id += 100) {
    world.add(*one, id);
    world.add(*two, id + 1000);
  }
  thread([&] { world.add_each(*one, 400, 500); });
  thread([&] { world.add_each(*two, 1400, 1500); });
  thread_that_looks(world, *reader, 3);
  run_threads();
  world.check_ring(*reader);
}

void frames_and_deaths(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  world.add_each(*one, 100, 300);
  share_registration(one, two);
  thread([&] { world.add(*one, 400, 3); }, true);
  thread([&] {
    world.add(*two, 700, 2);
    world.add(*two, 900);
  });
  thread_that_looks(world, *reader, 3);
  run_threads();
  world.check_ring(*reader);
  world.add(*two, 2000, world.setting.capacity);
  world.check_ring(*reader);
}

// Who reclaims a dead explorer adds nothing; another process uses its chunk again.
void frames_reclaimed(const World& world) {
  const Store one = world.attach(), two = world.attach(), three = world.attach(), reader = world.attach();
  thread([&] { world.add(*one, 100); }, true);
  thread([&] { static_cast<void>(two->stored()); });
  thread([&] { world.add_each(*three, 400, 800); });
  run_threads();
  world.look(*reader);
}

// An explorer is stopped between E3 and E4: a row stays in its slot although it has expired, and its chunk is used
// again.
void frames_over(const World& world) {
  const Store one = world.attach(), two = world.attach(), three = world.attach(), reader = world.attach();
  world.add_each(*one, 100, 300);  // the chunk of rows 0 and 1 is closed
  constexpr std::size_t kRegistration = 200;
  one->header_->registrations[kRegistration].lock.try_lock();
  thread([&] {
    rb::Waiting waiting;
    one->claim(kRegistration, 1, 0, waiting);
    world.add(*two, 400);
  });
  thread([&] { world.add(*three, 500, 2); });  // stores all frames before it claims a row
  thread_that_looks(world, *reader, 2, 1);
  run_threads();
  world.look(*reader);
}

// There is no memory for all frames of a call: what it wrote is taken back, and its chunk used by another.
void frames_undone(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  thread([&] {
    allocations_left = 1;
    try {
      world.add(*one, 100, 4);
    } catch (const std::bad_alloc&) {
    }
    allocations_left = -1;
  });
  thread([&] { world.add_each(*two, 400, 500); });
  thread_that_looks(world, *reader, 2);
  run_threads();
  world.check_ring(*reader);
}

// A chunk is used again by another explorer, once the first one has come round.
void frames_again(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  world.add_each(*one, 100, 200);
  thread([&] { world.add_each(*one, 300, 600); });
  thread([&] { world.add(*two, 1400, 2); });
  run_threads();
  world.check_ring(*reader);
}

// Rows are counted meanwhile: what is remembered of holes must not be wrong later.
void counting(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  world.add(*one, 100);
  share_registration(one, two);
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

// A row has expired, for a dead explorer has claimed another for its slot, and a third reclaims that one meanwhile.
void counting_reclaimed(const World& world) {
  const Store one = world.attach(), two = world.attach(), reader = world.attach();
  world.add(*one, 100, world.setting.capacity);
  thread([&] {
    rb::Registration& registration = one->header_->registrations[0];
    rb::Waiting waiting;
    registration.lock.try_lock();
    one->claim(0, 1, 0, waiting);
    registration.lock.unlock();  // as if it had died
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

}  // namespace weak
