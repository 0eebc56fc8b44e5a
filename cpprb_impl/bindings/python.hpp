// Included by every binding file: the Python and NumPy headers, owned references, exceptions.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL cpprb_impl_ARRAY_API
#ifndef CPPRB_IMPL_MODULE_INIT
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include <cxxabi.h>
#include <unistd.h>

#include <utility>

namespace rb {

// An owned reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  static Ref borrow(PyObject* object) { return Ref(Py_XNewRef(object)); }

  PyObject* get() const { return object_; }
  PyArrayObject* array() const { return reinterpret_cast<PyArrayObject*>(object_); }
  PyObject* give() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Thrown once a Python exception is set, to unwind to the binding's entry.
struct PythonError {};

// Sets a Python exception with a message as in PyErr_Format, and throws.
[[noreturn, gnu::cold]] void raise(PyObject* type, const char* format, ...);

// Issues a UserWarning with a message as in PyErr_Format, attributed to the first Python function outside this package.
// Runs Python code. Returns -1 with an exception set if a filter turns the warning into an error.
[[gnu::cold]] int warn_caller(const char* format, ...);

inline PyObject* checked(PyObject* object) {
  if (object == nullptr) throw PythonError();
  return object;
}

// Sets the Python exception for the C++ exception being handled.
[[gnu::cold]] void set_python_error();

// Runs a binding's body and converts C++ exceptions to Python ones.
template <class Result, class Body>
Result guarded(Result on_error, Body&& body) {
  try {
    return body();
  } catch (...) {
    set_python_error();
    return on_error;
  }
}

// Casts a fast-call function to the type that a method table needs.
template <class Function>
PyCFunction method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// Whether the interpreter is shutting down: then only one thread runs Python code.
inline bool is_ending() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Takes the interpreter lock again. During shutdown, Python 3.11 to 3.13 unwind a daemon thread that asks for it, and
// destructors would then run without the lock. So the thread blocks here, as in later versions of Python.
inline void take_interpreter(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (const abi::__forced_unwind&) {
    while (true) ::pause();
  }
}

}  // namespace rb
