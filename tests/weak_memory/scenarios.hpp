// Helpers of scenarios, and the scenarios in other files; scenarios.cpp lists them all.
#pragma once

#include "world.hpp"

namespace weak {

// Adds a thread that looks at all rows so many times, from slot `first` on.
inline void thread_that_looks(const World& world, rb::SharedStore& reader, int times, std::size_t first = 0) {
  thread([&world, &reader, times, first] {
    for (int i = 0; i < times; ++i) world.look(reader, first);
  });
}

// Gives two explorers the same registration.
inline void share_registration(const World::Store& one, const World::Store& two) {
  for (const auto* each : {&one, &two}) (*each)->registration_.store(1);
}

// scenarios_of_learners.cpp
void tree(const World& world);
void tree_and_deaths(const World& world);
void tree_and_reclaiming(const World& world);
void journal(const World& world);
void journal_of_two(const World& world);
void joining(const World& world);
void joining_at_once(const World& world);
void journal_lapped(const World& world);
void journal_killed(const World& world);
void largest(const World& world);
void largest_falls(const World& world);

// scenarios_of_frames.cpp
void frames(const World& world);
void frames_of_two(const World& world);
void frames_and_deaths(const World& world);
void frames_reclaimed(const World& world);
void frames_over(const World& world);
void frames_undone(const World& world);
void frames_again(const World& world);
void counting(const World& world);
void counting_reclaimed(const World& world);
void frames_lapped(const World& world);

// scenarios_of_sequences.cpp
void sequences(const World& world);
void sequences_lapped(const World& world);
void sequences_and_deaths(const World& world);

}  // namespace weak
