// The options of a ring's constructor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../core/priorities/priorities.hpp"
#include "../core/protocol/segment_header.hpp"
#include "fields.hpp"
#include "nstep.hpp"
#include "python.hpp"
#include "sequences.hpp"

namespace rb {

// Options of a store shared by processes.
struct SharedOptions {
  Discipline discipline = Discipline::none;
  std::string segment;      // to attach to; empty: create a new one
  std::string description;  // for processes that attach by name
  bool prefault = false;
};

struct RingOptions {
  std::uint64_t capacity = 0;
  std::size_t environments = 1;  // whose steps are interleaved; the capacity is a multiple
  std::vector<Field> fields;
  std::string file_prefix;              // empty: in memory
  bool compressed = false;              // the frames of stacks
  std::optional<SharedOptions> shared;  // empty: the store is private to this process
  std::optional<std::uint64_t> seed;    // empty: from the operating system
  bool prioritized = false;
  PriorityOptions priorities;
  bool check_for_update = false;
  std::unique_ptr<Nstep> nstep;              // null if each step is a transition
  std::optional<SequencesOption> sequences;  // empty: none are drawn
  // For features written in Python: add() calls self._add_through(**rows), and every batch passes through
  // self._batch_through(batch) before it is returned, or self._batch_through(batch, indexes) where the ring chose the
  // rows.
  bool add_through_python = false, batch_through_python = false;
};

// Reads a layout (cpprb_impl/layout/layout.py), and what each process adds to it. Raises KeyError, TypeError,
// ValueError or OverflowError naming the option.
RingOptions parse_options(PyObject* args, PyObject* kwargs, bool prioritized);

}  // namespace rb
