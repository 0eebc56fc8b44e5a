// A buffer's memory (core/base/memory.hpp), where every process is a fiber of this one: all map a segment at the same
// address, which the model knows. For core/protocol/process_word.hpp, each store is a process.
#include "../../cpprb_impl/core/base/memory.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "../../cpprb_impl/core/protocol/process_word.hpp"
#include "model.hpp"

namespace weak {
int allocations_left = -1;
}

namespace rb {
namespace {

struct Segment {
  char* data;
  std::size_t bytes;
};
std::map<std::string, Segment> segments;

char* zeros(std::size_t bytes) {
  void* data = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (data == nullptr) throw std::bad_alloc();
  return static_cast<char*>(std::memset(data, 0, bytes));
}

}  // namespace

Memory Memory::make_private(std::size_t bytes) {
  Memory memory;
  memory.data_ = zeros(bytes);
  memory.bytes_ = bytes;
  return memory;
}

Memory Memory::make_shared(std::size_t, std::size_t bytes) {
  const std::string name = std::to_string(segments.size());
  segments[name] = {zeros(bytes), bytes};
  weak::share(segments[name].data, bytes);
  return attach(name);
}

Memory Memory::attach(const std::string& name) {
  Memory memory;
  memory.name_ = name;
  memory.data_ = segments.at(name).data;
  memory.bytes_ = segments.at(name).bytes;
  return memory;
}

void Memory::allocate(std::size_t, std::size_t) {
  if (weak::me() != 1) return;
  if (weak::allocations_left == 0) throw std::bad_alloc();
  if (weak::allocations_left > 0) --weak::allocations_left;
}
void Memory::prefault(std::size_t) {}
void Memory::forked() {}

Memory::Memory(Memory&& other) noexcept { *this = std::move(other); }

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(name_, other.name_);
  return *this;
}

Memory::~Memory() { release(); }

void Memory::release() noexcept {
  if (name_.empty()) std::free(data_);  // segments stay
  data_ = nullptr;
  bytes_ = 0;
}

std::uint64_t this_process() {
  static std::uint64_t last = 0;
  return ++last;
}

// Nothing but speed may depend on it: so it is wrong as often as not.
bool may_be_alive(std::uint64_t) { return weak::choose(2) == 0; }

}  // namespace rb
