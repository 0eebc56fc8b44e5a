#include "options.hpp"

#include <algorithm>
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

// The options of a layout, each read once, by name. None counts as absent, except for `normalize`.
class Named {
 public:
  explicit Named(PyObject* dict) : dict_(dict) {
    if (!PyDict_Check(dict)) raise(PyExc_TypeError, "a layout's options must be a dict, got %R", dict);
  }

  bool has(const char* name) {
    names_.push_back(name);
    return PyDict_GetItemString(dict_, name) != nullptr;
  }

  // Borrowed; null if absent.
  PyObject* object(const char* name) {
    names_.push_back(name);
    PyObject* found = PyDict_GetItemString(dict_, name);
    return found == Py_None ? nullptr : found;
  }

  double number(const char* name, double otherwise) {
    PyObject* found = object(name);
    const double value = found == nullptr ? otherwise : PyFloat_AsDouble(found);
    if (PyErr_Occurred()) throw PythonError();
    return value;
  }

  Py_ssize_t integer(const char* name, Py_ssize_t otherwise) {
    PyObject* found = object(name);
    const Py_ssize_t value = found == nullptr ? otherwise : PyNumber_AsSsize_t(found, PyExc_OverflowError);
    if (PyErr_Occurred()) throw PythonError();
    return value;
  }

  bool flag(const char* name, bool otherwise) {
    PyObject* found = object(name);
    const int value = found == nullptr ? otherwise : PyObject_IsTrue(found);
    if (value < 0) throw PythonError();
    return value != 0;
  }

  const char* text(const char* name) {  // null if absent
    PyObject* found = object(name);
    if (found == nullptr) return nullptr;
    const char* value = PyUnicode_AsUTF8(found);
    if (value == nullptr) throw PythonError();
    return value;
  }

  // Raises TypeError for an option that has not been read.
  void refuse_others() const {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict_, &at, &key, &value) != 0;)
      if (std::none_of(names_.begin(), names_.end(),
                       [key](const char* name) { return PyUnicode_CompareWithASCIIString(key, name) == 0; }))
        raise(PyExc_TypeError, "a native ring has no option %R", key);
  }

 private:
  PyObject* dict_;
  std::vector<const char*> names_;
};

Ref attribute(PyObject* layout, const char* name) { return Ref(checked(PyObject_GetAttrString(layout, name))); }

}  // namespace

RingOptions parse_options(PyObject* args, PyObject* kwargs, bool prioritized) {
  static const char* names[] = {
      "layout", "seed", "segment", "description", "add_through_python", "batch_through_python", nullptr};
  PyObject *layout, *seed = Py_None;
  const char *segment = nullptr, *description = "";
  int add_through_python = 0, batch_through_python = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$Ozspp", const_cast<char**>(names), &layout, &seed, &segment,
                                   &description, &add_through_python, &batch_through_python))
    throw PythonError();
  const Ref size = attribute(layout, "size"), fields = attribute(layout, "fields"), nstep = attribute(layout, "nstep");
  const Ref given = attribute(layout, "options");
  Named named(given.get());
  RingOptions options;

  const Py_ssize_t capacity = PyNumber_AsSsize_t(size.get(), PyExc_OverflowError);
  if (PyErr_Occurred()) throw PythonError();
  if (capacity < 1) raise(PyExc_ValueError, "size must be at least 1, got %zd", capacity);
  options.capacity = static_cast<std::uint64_t>(capacity);
  const char* lock = named.text("lock");
  const Py_ssize_t environments = named.integer("n_envs", 1);
  if (environments < 1) raise(PyExc_ValueError, "n_envs must be at least 1, got %zd", environments);
  if (lock == nullptr && capacity % environments != 0)  // a shared ring has no per-environment frames
    raise(PyExc_ValueError, "size must be a multiple of n_envs=%zd, got %zd", environments, capacity);
  options.environments = static_cast<std::size_t>(environments);
  PyObject* const next_of = named.object("next_of");
  options.fields = parse_fields(fields.get(), next_of, named.object("stack_compress"));
  options.file_prefix = path_of(named.object("mmap_prefix"), "mmap_prefix");
  options.compressed = named.text("compress") != nullptr;
  if (options.compressed && (lock != nullptr || !options.file_prefix.empty()))
    raise(PyExc_ValueError, "frames can only be compressed in the memory of a buffer that is not shared");
  const bool prefault = named.flag("prefault", false);
  if (lock != nullptr)
    options.shared = SharedOptions{discipline_named(lock), segment != nullptr ? segment : "", description, prefault};
  else if (segment != nullptr)
    raise(PyExc_ValueError, "lock must be given if segment is given");
  options.seed = seed_of(seed);
  options.prioritized = prioritized;
  options.priorities.alpha = named.number("alpha", options.priorities.alpha);
  options.priorities.eps = named.number("eps", options.priorities.eps);
  const char* const normalize = named.has("normalize") ? named.text("normalize") : "buffer";
  options.priorities.normalize = normalize_named(normalize);
  options.check_for_update = named.flag("check_for_update", false);
  // Both are implemented in Python, where steps with objects also wait.
  named.object("autoreset");
  const bool has_objects = named.object("objects") != nullptr;
  if (PyObject* sequences = named.object("sequences"); sequences != nullptr)
    options.sequences = parse_sequences(sequences, options.fields);
  named.refuse_others();
  if (!has_objects) options.nstep = parse_nstep(nstep.get(), options.fields, options.environments, prioritized);
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
