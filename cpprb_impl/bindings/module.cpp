// The extension module cpprb_impl._native.
#define CPPRB_IMPL_MODULE_INIT
#include "ring.hpp"

namespace {

PyObject* segment_prefix(PyObject*, PyObject*) {
  return rb::guarded<PyObject*>(nullptr, [] { return PyUnicode_FromString(rb::Memory::own_prefix().c_str()); });
}

PyMethodDef functions[] = {
    {"_segment_prefix", segment_prefix, METH_NOARGS,
     "_segment_prefix()\n--\n\nWhat the names of all segments begin with that this process makes, and no other's."},
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
