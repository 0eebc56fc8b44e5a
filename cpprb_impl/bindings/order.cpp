#include "order.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "ring.hpp"
#include "state.hpp"

namespace rb {
namespace {

void end_watch(Ring& ring) {
  ring.streams.order.reset();
  ring.adds_directly = !ring.add_through_python;
}

PyObject* watch_order(PyObject* self, PyObject* args) {
  return guarded<PyObject*>(nullptr, [&] {
    PyObject *now, *following, *ends, *option, *harm;
    int starts;
    if (!PyArg_ParseTuple(args, "OOOUUp", &now, &following, &ends, &option, &harm, &starts)) throw PythonError();
    Ring& ring = ring_of(self);
    const std::vector<Field>& fields = ring.streams.nstep ? ring.streams.nstep->fields : ring.fields;
    std::vector<OrderWatch::Pair> pairs;
    const auto found = find_fields(fields, now, "now"), next = find_fields(fields, following, "following");
    for (std::size_t p = 0; p < std::min(found.size(), next.size()); ++p)
      pairs.push_back({found[p], next[p], static_cast<std::size_t>(fields[found[p]].bytes)});
    std::vector<EpisodeEnd> of_episodes = episode_ends(fields, ends, "ends");
    const bool order = PyUnicode_GET_LENGTH(option) != 0;
    // In braces, since clang before version 16 has no parentheses for an aggregate.
    ring.streams.order = std::make_unique<Order>(
        Order{OrderWatch(std::move(pairs), std::move(of_episodes), ring.environments, order, starts != 0),
              Ref::borrow(option), Ref::borrow(harm)});
    ring.adds_directly = false;
    Py_RETURN_NONE;
  });
}

PyObject* watches_order(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] { return PyBool_FromLong(ring_of(self).streams.order != nullptr); });
}

PyMethodDef methods[] = {
    {"_watch_order", watch_order, METH_VARARGS,
     "_watch_order(now, following, ends, option, harm, starts)\n\n"
     "Check the first rows that are added: whether a value of the fields `now` equals that of `following` in the\n"
     "previous row. `ends` are fields that mark the last row of an episode. Unless `option` is empty, a UserWarning\n"
     "reports once that no row begins where the previous one ended, and the `harm` for `option`. If `starts`, "
     "another\n"
     "warning reports that each episode begins where the previous one ended."},
    {"_watches_order", watches_order, METH_NOARGS, "_watches_order() -> bool"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void look_at_order(const Ring& ring, const AddScratch& in, std::size_t count,
                   const std::vector<npy_int64>* environments) {
  if (!ring.streams.order) return;
  const OrderWatch::Finding found = ring.streams.order->watch.look(in.data.data(), count, environments);
  if (found != OrderWatch::Finding::nothing) throw OrderFound(found);
}

void keep_order(Ring& ring) {
  if (!ring.streams.order) return;
  ring.streams.order->watch.keep();
  if (ring.streams.order->watch.is_over()) end_watch(ring);
}

void warn_of_order(Ring& ring, OrderWatch::Finding found) {
  if (!ring.streams.order) return;  // another thread was faster
  const Ref option = Ref::borrow(ring.streams.order->option.get()), harm = Ref::borrow(ring.streams.order->harm.get());
  ring.streams.order->watch.stop(found);
  if (ring.streams.order->watch.is_over()) end_watch(ring);
  const int status =
      found == OrderWatch::Finding::no_order
          ? warn_caller(
                "%U: none of %zu steps begins where the one before ended, although none of these ended an episode: "
                "%U",
                option.get(), OrderWatch::kMisses, harm.get())
          : warn_caller(
                "add(): each row after the end of an episode begins with the next_* of the row that ended "
                "it. With Gymnasium's AutoresetMode.NEXT_STEP, such a row only resets an environment: create "
                "the buffer with autoreset=\"next_step\", or leave the row out with env_ids. With SAME_STEP, "
                "next_* of the row that ends an episode must be what infos[\"final_obs\"] holds");
  if (status < 0) throw PythonError();
}

int add_order_methods(PyTypeObject& type) { return add_methods(type, methods); }

}  // namespace rb
