#include "python.hpp"

#include <cstdarg>
#include <new>
#include <stdexcept>
#include <system_error>

#include "../core/base/sizes.hpp"
#include "../core/protocol/locks.hpp"

namespace rb {

void raise(PyObject* type, const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  PyErr_FormatV(type, format, values);
  va_end(values);
  throw PythonError();
}

int warn_caller(const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  const Ref text(PyUnicode_FromFormatV(format, values));
  va_end(values);
  if (!text) return -1;
  const Ref module(PyImport_ImportModule("cpprb_impl.layout.caller"));
  if (!module) return -1;
  const Ref done(PyObject_CallMethod(module.get(), "warn", "O", text.get()));
  return done ? 0 : -1;
}

void set_python_error() {
  try {
    throw;
  } catch (const PythonError&) {
  } catch (const Interrupted&) {  // the signal handler's exception is set
  } catch (const TooLarge& error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::length_error&) {  // a vector larger than max_size()
    PyErr_NoMemory();
  } catch (const std::system_error& error) {
    // The message may contain a file name, which need not be UTF-8.
    Ref args(Py_BuildValue("(iN)", error.code().value(), PyUnicode_DecodeFSDefault(error.what())));
    if (args) PyErr_SetObject(PyExc_OSError, args.get());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

}  // namespace rb
