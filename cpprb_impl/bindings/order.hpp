// Warnings about the order of the first rows that a process adds. A watched ring takes a separate path in add(), so
// that the check costs nothing once it has ended.
#pragma once

#include <exception>
#include <vector>

#include "../core/steps/order_watch.hpp"
#include "python.hpp"

namespace rb {

struct AddScratch;
struct Ring;

struct Order {
  OrderWatch watch;
  Ref option, harm;  // str: the option that relies on the order, and the harm without it
};

// Thrown before anything is stored, and before Python code could change the arguments.
struct OrderFound : std::exception {
  explicit OrderFound(OrderWatch::Finding its_finding) : finding(its_finding) {}
  const char* what() const noexcept override { return "the order of rows must be watched by add()"; }
  OrderWatch::Finding finding;
};

// Checks the rows of one call of add(), if the ring is watched; throws OrderFound. `environments` has one entry per
// row, or is null.
void look_at_order(const Ring& ring, const AddScratch& in, std::size_t count,
                   const std::vector<npy_int64>* environments);
// Remembers the checked rows, once they are stored.
void keep_order(Ring& ring);

// Issues the warning, and raises it if warnings are errors.
void warn_of_order(Ring& ring, OrderWatch::Finding found);

// Calls add(), which checks the order, and calls it again after each warning.
template <class Add>
PyObject* watched(Ring& ring, Add add) {
  for (;;) {
    try {
      return add();
    } catch (const OrderFound& found) {
      warn_of_order(ring, found.finding);
    }
  }
}

int add_order_methods(PyTypeObject& type);

}  // namespace rb
