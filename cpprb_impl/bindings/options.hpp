// The options of a ring's constructor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../core/priorities.hpp"
#include "../core/segment_header.hpp"
#include "fields.hpp"
#include "nstep.hpp"
#include "python.hpp"

namespace rb {

// Of a store that processes share.
struct SharedOptions {
  Discipline discipline = Discipline::none;
  std::string segment;      // to attach to; empty: a new one is made
  std::string description;  // for processes that attach by name
  bool prefault = false;
};

struct RingOptions {
  std::uint64_t capacity = 0;
  std::vector<Field> fields;
  std::string file_prefix;              // empty: in memory
  std::optional<SharedOptions> shared;  // empty: the store is this process's own
  std::optional<std::uint64_t> seed;    // empty: from the system
  bool prioritized = false;
  PriorityOptions priorities;
  bool check_for_update = false;
  std::unique_ptr<Nstep> nstep;  // null where each step is a transition
  // What a feature written in Python needs: add() goes to self._add_through(**rows), and every batch that is
  // returned through self._batch_through(batch) first.
  bool add_through_python = false, batch_through_python = false;
};

// Raises KeyError, TypeError, ValueError or OverflowError naming the option.
RingOptions parse_options(PyObject* args, PyObject* kwargs, bool prioritized);

}  // namespace rb
