#include <algorithm>
#include <utility>

#include "../core/base/sizes.hpp"
#include "nstep.hpp"

namespace rb {
namespace {

using Role = StepColumn::Role;

Ref dtype_of(int type) { return Ref(reinterpret_cast<PyObject*>(PyArray_DescrFromType(type))); }

// Returns how computed numbers of a field are stored.
StepColumn computed(const Field& field, Role role, const char* what) {
  const int type = field.descr()->type_num;
  StepColumn column{0, role};
  column.swapped = PyDataType_ISBYTESWAPPED(field.descr());
  column.numbers = static_cast<std::size_t>(field.elements) * (PyTypeNum_ISCOMPLEX(type) ? 2 : 1);
  switch (type) {
    case NPY_HALF: column.kind = NumberKind::half; break;
    case NPY_FLOAT:
    case NPY_CFLOAT: column.kind = NumberKind::single; break;
    case NPY_DOUBLE:
    case NPY_CDOUBLE: column.kind = NumberKind::twice; break;
    case NPY_LONGDOUBLE:
    case NPY_CLONGDOUBLE: column.kind = NumberKind::extended; break;
    default:
      raise(PyExc_TypeError, "Nstep: %R has dtype %S, which cannot hold %s", field.name.get(), field.dtype.get(), what);
  }
  return column;
}

// Returns how a reward's sums are stored, and changes the field's type to the one in which the sums are computed.
StepColumn sum_of(Field& field) {
  const int type = field.descr()->type_num;
  StepColumn column = computed(field, Role::sum, "discounted sums");
  const bool extended = column.kind == NumberKind::extended;
  field.dtype = dtype_of(PyTypeNum_ISCOMPLEX(type) ? (extended ? NPY_CLONGDOUBLE : NPY_CDOUBLE)
                                                   : (extended ? NPY_LONGDOUBLE : NPY_DOUBLE));
  field.put_numbers = put_numbers_for(field.descr());
  field.numbers = number_type_of(field.descr());
  column.bytes = times(column.numbers, extended ? sizeof(long double) : sizeof(double));
  field.bytes = static_cast<npy_intp>(column.bytes);
  return column;
}

StepEnd end_of(const Field& field, std::size_t column) {
  const int type = field.descr()->type_num;
  if (field.elements != 1)
    raise(PyExc_ValueError, "Nstep needs one %R per transition, got %zd", field.name.get(), field.elements);
  if (!PyTypeNum_ISNUMBER(type) && !PyTypeNum_ISBOOL(type))
    raise(PyExc_TypeError, "Nstep: %R must be a number or a bool, got dtype %S", field.name.get(), field.dtype.get());
  Py_INCREF(field.dtype.get());  // PyArray_Zeros steals a reference
  const Ref zero(checked(PyArray_Zeros(0, nullptr, field.descr(), 0))), one(checked(PyLong_FromLong(1)));
  if (PyArray_SETITEM(zero.array(), PyArray_BYTES(zero.array()), one.get()) < 0) throw PythonError();
  return {{column, mask_of(field)}, std::string(PyArray_BYTES(zero.array()), static_cast<std::size_t>(field.bytes))};
}

}  // namespace

Nstep::Nstep(std::vector<Field> step_fields, std::vector<std::size_t> field_columns, bool prioritized,
             NstepWindow steps)
    : fields(std::move(step_fields)),
      columns(std::move(field_columns)),
      keywords(prioritized),
      window(std::move(steps)) {}

std::unique_ptr<Nstep> parse_nstep(PyObject* options, const std::vector<Field>& fields, std::size_t environments,
                                   bool prioritized) {
  if (options == nullptr || options == Py_None) return nullptr;
  static const char* names[] = {"size", "gamma", "rew", "next", "truncated", "discount", nullptr};
  Py_ssize_t size;
  double gamma;
  PyObject *rewards, *following, *truncated = nullptr, *discounts = nullptr;
  const Ref none(checked(PyTuple_New(0)));
  if (!PyDict_Check(options)) raise(PyExc_TypeError, "nstep must be a dict, got %R", options);
  if (!PyArg_ParseTupleAndKeywords(none.get(), options, "ndOO|OO", const_cast<char**>(names), &size, &gamma, &rewards,
                                   &following, &truncated, &discounts))
    throw PythonError();
  if (size < 1) raise(PyExc_ValueError, "Nstep: size must be at least 1, got %zd", size);

  std::vector<Field> read;
  std::vector<std::size_t> places;
  std::vector<StepColumn> columns(fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f) columns[f].bytes = static_cast<std::size_t>(fields[f].bytes);
  const Ref done(checked(Py_BuildValue("(s)", "done")));
  const std::size_t end = find_fields(fields, done.get(), "Nstep").front();
  columns[end].role = Role::done;
  const StepEnd is_done = end_of(fields[end], end);
  std::optional<StepEnd> is_truncated;
  for (const auto f : find_fields(fields, truncated, "Nstep: truncated")) {
    columns[f].role = Role::last;
    is_truncated = end_of(fields[f], f);
  }
  for (const auto f : find_fields(fields, following, "Nstep: next")) columns[f].role = Role::last;
  const std::vector<std::size_t> summed = find_fields(fields, rewards, "Nstep: rew");
  for (const auto f : find_fields(fields, discounts, "Nstep: discount"))
    columns[f] = computed(fields[f], Role::discount, "discounts");
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (columns[f].role == Role::discount) continue;
    read.push_back(like(fields[f]));
    places.push_back(f);
    if (std::find(summed.begin(), summed.end(), f) != summed.end()) columns[f] = sum_of(read.back());
  }
  if (prioritized) {
    columns.push_back({sizeof(double)});
    columns.push_back({sizeof(float)});
  }
  return std::make_unique<Nstep>(
      std::move(read), std::move(places), prioritized,
      NstepWindow(static_cast<std::uint64_t>(size), gamma, environments, std::move(columns), is_done, is_truncated));
}

}  // namespace rb
