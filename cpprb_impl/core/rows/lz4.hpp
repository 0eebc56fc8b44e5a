// LZ4, from the system's library liblz4.so.1, which is loaded on first use. Since the library's interface is stable,
// the module is built without its headers, and runs without the library as long as nothing is compressed.
#pragma once

#include <cstddef>

namespace rb {

class Lz4 {
 public:
  // Throws std::runtime_error, which says what to install, if the library cannot be loaded.
  static const Lz4& library();

  // Compresses `bytes` bytes into the `room` bytes at `to`. Returns the size of the block, or 0 if it does not fit.
  std::size_t compress(const char* from, std::size_t bytes, char* to, std::size_t room) const;
  // Decompresses a block of `block_bytes` bytes into `bytes` bytes. Throws std::runtime_error if the block holds
  // anything else.
  void decompress(const char* block, std::size_t block_bytes, char* to, std::size_t bytes) const;

 private:
  Lz4();

  // LZ4_compress_default and LZ4_decompress_safe: from, to, bytes at `from`, bytes at `to`.
  using Convert = int (*)(const char*, char*, int, int);
  Convert compress_;
  Convert decompress_;
};

}  // namespace rb
