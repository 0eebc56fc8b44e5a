// Scenarios that stand in files of their own; scenarios.cpp lists them all.
#pragma once

#include "world.hpp"

namespace weak {

// scenarios_of_learners.cpp
void tree(const World& world);
void tree_and_deaths(const World& world);
void tree_and_burying(const World& world);
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
void frames_buried(const World& world);
void frames_over(const World& world);
void frames_taken_back(const World& world);
void frames_again(const World& world);
void counting(const World& world);
void counting_buried(const World& world);
void frames_lapped(const World& world);

}  // namespace weak
