#include "options.hpp"

#include <cmath>
#include <cstring>
#include <utility>

namespace rb {
namespace {

Discipline discipline_named(const char* name) {
  if (std::strcmp(name, "none") == 0) return Discipline::none;
  if (std::strcmp(name, "buffer") == 0) return Discipline::buffer;
  if (std::strcmp(name, "critical") == 0) return Discipline::critical;
  raise(PyExc_ValueError, "lock must be 'none', 'buffer' or 'critical', got '%s'", name);
}

Normalize normalize_named(const char* name) {
  if (name == nullptr) return Normalize::none;
  if (std::strcmp(name, "buffer") == 0) return Normalize::buffer;
  if (std::strcmp(name, "batch") == 0) return Normalize::batch;
  raise(PyExc_ValueError, "normalize must be 'buffer', 'batch' or None, got '%s'", name);
}

std::optional<std::uint64_t> seed_of(PyObject* seed) {
  if (seed == Py_None) return std::nullopt;
  const auto number = PyLong_AsUnsignedLongLong(seed);
  if (PyErr_Occurred()) throw PythonError();
  return number;
}

// Refuses field names that a prioritized sample uses for its own columns.
void check_names(const std::vector<Field>& fields) {
  for (const auto& field : fields)
    for (const char* taken : {"priorities", "weights", "indexes"})
      if (PyUnicode_CompareWithASCIIString(field.name.get(), taken) == 0)
        raise(PyExc_ValueError, "field %s must be renamed: prioritized samples contain their own %s", taken, taken);
}

}  // namespace

RingOptions parse_options(PyObject* args, PyObject* kwargs, bool prioritized) {
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
                                "n_envs",
                                "compressed",
                                "add_through_python",
                                "batch_through_python",
                                "normalize",
                                nullptr};
  Py_ssize_t capacity, environments = 1;
  PyObject *fields, *next_of = nullptr, *stack_compress = nullptr, *mmap_prefix = nullptr, *seed = Py_None;
  PyObject* nstep = nullptr;
  const char *lock = nullptr, *segment = nullptr, *description = "", *normalize = "buffer";
  int prefault = 0, check_for_update = 0, compressed = 0, add_through_python = 0, batch_through_python = 0;
  RingOptions options;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "nO|$OOOzzspOddpOnpppz", const_cast<char**>(names), &capacity, &fields,
                                   &next_of, &stack_compress, &mmap_prefix, &lock, &segment, &description, &prefault,
                                   &seed, &options.priorities.alpha, &options.priorities.eps, &check_for_update, &nstep,
                                   &environments, &compressed, &add_through_python, &batch_through_python, &normalize))
    throw PythonError();
  if (capacity < 1) raise(PyExc_ValueError, "size must be at least 1, got %zd", capacity);
  options.capacity = static_cast<std::uint64_t>(capacity);
  if (environments < 1) raise(PyExc_ValueError, "n_envs must be at least 1, got %zd", environments);
  if (lock == nullptr && capacity % environments != 0)  // a shared ring has no frames of single environments
    raise(PyExc_ValueError, "size must be a multiple of n_envs=%zd, got %zd", environments, capacity);
  options.environments = static_cast<std::size_t>(environments);
  options.fields = parse_fields(fields, next_of, stack_compress);
  options.file_prefix = path_of(mmap_prefix, "mmap_prefix");
  options.compressed = compressed != 0;
  if (options.compressed && (lock != nullptr || !options.file_prefix.empty()))
    raise(PyExc_ValueError, "frames can only be compressed in the memory of a buffer that is not shared");
  if (lock != nullptr)
    options.shared =
        SharedOptions{discipline_named(lock), segment != nullptr ? segment : "", description, prefault != 0};
  else if (segment != nullptr)
    raise(PyExc_ValueError, "lock must be given if segment is given");
  options.seed = seed_of(seed);
  options.prioritized = prioritized;
  options.priorities.normalize = normalize_named(normalize);
  options.check_for_update = check_for_update != 0;
  options.nstep = parse_nstep(nstep, options.fields, options.environments, prioritized);
  options.add_through_python = add_through_python != 0;
  options.batch_through_python = batch_through_python != 0;
  if (prioritized) {
    check_names(options.fields);
    if (!std::isfinite(options.priorities.leaf(1.0)))
      raise(PyExc_ValueError, "alpha and eps must be small enough that (1 + eps)^alpha is a finite float");
  }
  return options;
}

}  // namespace rb
