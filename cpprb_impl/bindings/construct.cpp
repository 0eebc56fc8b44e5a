// Constructs a ring: its store, with one factory per kind, and the store's sampler.
#include <sys/random.h>

#include <cerrno>
#include <cmath>
#include <utility>

#include "../core/private/private_store.hpp"
#include "../core/shared/shared_store.hpp"
#include "ring.hpp"

namespace rb {

std::uint64_t entropy() {
  std::uint64_t word = 0;
  if (getrandom(&word, sizeof word, 0) != sizeof word)
    throw std::system_error(errno, std::generic_category(), "getrandom");
  return word;
}

namespace {

std::unique_ptr<PrivateStore> make_private_store(const RingOptions& options) {
  std::vector<FieldStorage> fields = storage_of(options.fields, options.file_prefix);
  for (std::size_t f = 0; f < fields.size(); ++f)
    fields[f].compressed = options.compressed && options.fields[f].stacked;
  auto rows = std::make_unique<Rows>(std::move(fields), 0, options.environments);
  Memory::remove_abandoned();  // so the next buffer that the user creates releases a killed job's memory
  return std::make_unique<PrivateStore>(std::move(rows), options.capacity, options.prioritized,
                                        options.check_for_update);
}

// Creates the segment, or attaches to the named one.
std::unique_ptr<SharedStore> make_shared_store(const RingOptions& options) {
  const SharedOptions& shared = *options.shared;
  auto rows = std::make_unique<Rows>(storage_of(options.fields, options.file_prefix),
                                     SharedStore::front(options.prioritized, options.sequences.has_value()));
  SharedStore::Shape shape{options.capacity, options.prioritized, shared.discipline, shared.prefault,
                           shared.description};
  if (options.sequences) shape.sequences = options.sequences->core;
  if (shared.segment.empty()) return std::make_unique<SharedStore>(std::move(rows), shape);
  auto store = std::make_unique<SharedStore>(std::move(rows), shape, shared.segment);
  if (options.prioritized && !std::isfinite(options.priorities.leaf(store->max_priority())))
    raise(PyExc_RuntimeError, "shared segment %s: (largest priority + eps)^alpha must be a finite float",
          shared.segment.c_str());
  return store;
}

template <class Make>
std::unique_ptr<Ring> make_ring(RingOptions options, Make make_store) {
  auto store = make_store(options);
  std::unique_ptr<Sequences> sequences;
  if (options.sequences) sequences = std::make_unique<Sequences>(*options.sequences, *store, options.environments);
  auto sampler = options.prioritized ? make_prioritized_sampler(*store) : make_uniform_sampler(*store);
  auto ring = std::make_unique<Ring>(std::move(options), std::move(store), std::move(sampler));
  ring->streams.sequences = std::move(sequences);
  return ring;
}

}  // namespace

int construct(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded(-1, [&] {
    RingOptions options = parse_options(args, kwargs, PyObject_TypeCheck(self, &PrioritizedRingType));
    auto* object = reinterpret_cast<RingObject*>(self);
    if (object->ring != nullptr) raise(PyExc_RuntimeError, "a buffer cannot be initialised twice");
    const bool is_shared = options.shared.has_value();
    auto ring = is_shared ? make_ring(std::move(options), make_shared_store)
                          : make_ring(std::move(options), make_private_store);
    object->ring = ring.release();
    return 0;
  });
}

}  // namespace rb
