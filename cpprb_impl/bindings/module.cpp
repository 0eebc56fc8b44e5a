// The extension module cpprb_impl._native.
#define CPPRB_IMPL_MODULE_INIT
#include "ring.hpp"

PyMODINIT_FUNC PyInit__native() {
  import_array();
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT};
  definition.m_name = "cpprb_impl._native";
  definition.m_doc = "Native parts of cpprb_impl.";
  definition.m_size = -1;
  rb::Ref module(PyModule_Create(&definition));
  if (!module || rb::prepare_types(module.get()) < 0) return nullptr;
  return module.give();
}
