// Mistakes planted in the sanitized build of the module only: .ci/sanitize runs each and must see it caught.
#include <climits>
#include <cstdlib>

extern "C" {

__attribute__((visibility("default"))) int plant_heap_overflow(int at) {
  char* volatile bytes = static_cast<char*>(std::calloc(8, 1));  // volatile: or the compiler itself knows its size
  const int read = bytes[at];
  std::free(bytes);
  return read;
}

__attribute__((visibility("default"))) int plant_undefined_behaviour(int more) { return INT_MAX + more; }
}
