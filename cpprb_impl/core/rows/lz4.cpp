#include "lz4.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace rb {

Lz4::Lz4() {
  void* const library = dlopen("liblz4.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto find = [&](const char* name) {
    void* const found = library != nullptr ? dlsym(library, name) : nullptr;
    if (found != nullptr) return reinterpret_cast<Convert>(found);
    throw std::runtime_error(
        "compress='lz4' needs the library liblz4.so.1; install it (Debian and Ubuntu: liblz4-1, Fedora: lz4-libs)");
  };
  compress_ = find("LZ4_compress_default");
  decompress_ = find("LZ4_decompress_safe");
}

const Lz4& Lz4::library() {
  static const Lz4 library;
  return library;
}

std::size_t Lz4::compress(const char* from, std::size_t bytes, char* to, std::size_t room) const {
  constexpr std::size_t kMost = 0x7e000000;  // LZ4_MAX_INPUT_SIZE
  if (bytes > kMost) return 0;
  const int size = compress_(from, to, static_cast<int>(bytes), static_cast<int>(std::min(room, kMost)));
  return static_cast<std::size_t>(std::max(size, 0));
}

void Lz4::decompress(const char* block, std::size_t block_bytes, char* to, std::size_t bytes) const {
  const int size = decompress_(block, to, static_cast<int>(block_bytes), static_cast<int>(bytes));
  if (!std::cmp_equal(size, bytes)) throw std::runtime_error("a compressed frame is damaged");
}

}  // namespace rb
