// The extension module cpprb_impl._native.
#define CPPRB_IMPL_MODULE_INIT
#include <sys/prctl.h>

#include "../core/base/memory.hpp"
#include "../core/protocol/description.hpp"
#include "ring.hpp"

namespace {

PyObject* segment_prefix(PyObject*, PyObject*) {
  return rb::guarded<PyObject*>(nullptr, [] { return PyUnicode_FromString(rb::Memory::own_prefix().c_str()); });
}

PyObject* description_of_segment(PyObject*, PyObject* name) {
  return rb::guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const char* segment = PyUnicode_AsUTF8(name);
    if (segment == nullptr) throw rb::PythonError();
    try {
      const std::string text = rb::description_of(segment);
      return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    } catch (const std::invalid_argument& error) {
      rb::raise(PyExc_ValueError, "%s", error.what());
    }
  });
}

// Whether this process adopts processes whose parents have ended.
PyObject* adopts_orphans(PyObject*, PyObject*) {
  int subreaper = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
  return PyBool_FromLong(getpid() == 1 || subreaper != 0);
}

PyObject* indexes_of(PyObject*, PyObject* given) {
  return rb::guarded<PyObject*>(nullptr, [&] { return rb::as_indexes(given).give(); });
}

PyMethodDef functions[] = {
    {"_adopts_orphans", adopts_orphans, METH_NOARGS,
     "_adopts_orphans()\n--\n\nReturn whether this process adopts processes whose parents have ended."},
    {"_description_of", description_of_segment, METH_O,
     "_description_of(segment, /)\n--\n\n"
     "Return the description stored in a segment. Raises FileNotFoundError if the segment is gone, ValueError if the\n"
     "file is not a segment of this library or was truncated, RuntimeError if a different version of the library\n"
     "created the segment."},
    {"_indexes_of", indexes_of, METH_O,
     "_indexes_of(indexes, /)\n--\n\n"
     "Return indexes as an array of int64, which may be the given array. Raises what `update_priorities` raises for\n"
     "indexes that are not whole numbers."},
    {"_segment_prefix", segment_prefix, METH_NOARGS,
     "_segment_prefix()\n--\n\nReturn the prefix shared by the names of all segments that this process creates."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyMODINIT_FUNC PyInit__native() {
  import_array();
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT};
  definition.m_name = "cpprb_impl._native";
  definition.m_doc = "Native parts of cpprb_impl.";
  definition.m_size = -1;
  definition.m_methods = functions;
  rb::Ref module(PyModule_Create(&definition));
  if (!module || rb::prepare_types(module.get()) < 0) return nullptr;
  return module.give();
}
