// Making a ring from its constructor's arguments.
#include <sys/random.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "ring.hpp"

namespace rb {

std::uint64_t entropy() {
  std::uint64_t word = 0;
  if (getrandom(&word, sizeof word, 0) != sizeof word)
    throw std::system_error(errno, std::generic_category(), "getrandom");
  return word;
}

namespace {

Discipline discipline_named(const char* name) {
  if (std::strcmp(name, "none") == 0) return Discipline::none;
  if (std::strcmp(name, "buffer") == 0) return Discipline::buffer;
  if (std::strcmp(name, "critical") == 0) return Discipline::critical;
  raise(PyExc_ValueError, "lock must be 'none', 'buffer' or 'critical', not '%s'", name);
}

}  // namespace

int construct(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded(-1, [&] {
    static const char* names[] = {"capacity",
                                  "fields",
                                  "next_of",
                                  "stack_compress",
                                  "mmap_prefix",
                                  "lock",
                                  "segment",
                                  "description",
                                  "prefault",
                                  "seed",
                                  "alpha",
                                  "eps",
                                  "check_for_update",
                                  "nstep",
                                  "add_through_python",
                                  "batch_through_python",
                                  nullptr};
    Py_ssize_t capacity;
    PyObject *fields, *next_of = nullptr, *stack_compress = nullptr, *seed = Py_None, *nstep = nullptr;
    PyObject* mmap_prefix = nullptr;
    const char *lock = "unshared", *segment = nullptr, *description = "";
    double alpha = 0.6, eps = 1e-4;
    int prefault = 0, check_for_update = 0, add_through_python = 0, batch_through_python = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "nO|$OOOszspOddpOpp", const_cast<char**>(names), &capacity, &fields,
                                     &next_of, &stack_compress, &mmap_prefix, &lock, &segment, &description, &prefault,
                                     &seed, &alpha, &eps, &check_for_update, &nstep, &add_through_python,
                                     &batch_through_python))
      throw PythonError();
    auto* object = reinterpret_cast<RingObject*>(self);
    if (object->ring != nullptr) raise(PyExc_RuntimeError, "a buffer can't be initialised twice");
    if (capacity < 1) raise(PyExc_ValueError, "size must be at least 1, not %zd", capacity);

    const bool prioritized = PyObject_TypeCheck(self, &PrioritizedRingType);
    auto ring = std::make_unique<Ring>(parse_fields(fields, next_of, stack_compress), prioritized);
    for (const auto& field : ring->fields)
      for (const char* taken : {"priorities", "weights", "indexes"})
        if (prioritized && PyUnicode_CompareWithASCIIString(field.name.get(), taken) == 0)
          raise(PyExc_ValueError, "a prioritized buffer has %s of its own: name the field otherwise", taken);
    const auto rows = static_cast<std::uint64_t>(capacity);
    ring->is_shared = std::strcmp(lock, "unshared") != 0;
    if (segment && !ring->is_shared) raise(PyExc_ValueError, "lock must be given with a segment");
    auto storage = storage_of(ring->fields, path_of(mmap_prefix, "mmap_prefix"));
    if (ring->is_shared) {
      const SharedStore::Shape shape{rows, prioritized, discipline_named(lock), prefault != 0, description};
      auto places = std::make_unique<Rows>(std::move(storage), SharedStore::front(prioritized));
      ring->store = segment ? std::make_unique<SharedStore>(std::move(places), shape, segment)
                            : std::make_unique<SharedStore>(std::move(places), shape);
    } else {
      ring->store = std::make_unique<PrivateStore>(std::make_unique<Rows>(std::move(storage)), rows, prioritized,
                                                   check_for_update != 0);
    }
    ring->process = ring->maker = process_number();
    if (seed == Py_None) {
      ring->random.reseed(entropy());
    } else {
      const auto number = PyLong_AsUnsignedLongLong(seed);
      if (PyErr_Occurred()) throw PythonError();
      ring->random.reseed(number);
    }
    ring->alpha = alpha;
    ring->eps = eps;
    ring->nstep = parse_nstep(nstep, ring->fields, prioritized);
    ring->add_through_python = add_through_python != 0;
    ring->batch_through_python = batch_through_python != 0;
    if (prioritized && !std::isfinite(ring->leaf(1.0)))
      raise(PyExc_ValueError, "alpha and eps are so large that (1 + eps)^alpha is no float");
    if (segment && prioritized && !std::isfinite(ring->leaf(ring->store->max_priority())))
      raise(PyExc_RuntimeError, "shared segment %s: (largest priority + eps)^alpha must be a finite float", segment);
    object->ring = ring.release();
    return 0;
  });
}

}  // namespace rb
