#include "description.hpp"

#include <cstring>
#include <stdexcept>

#include "../base/memory.hpp"
#include "segment_header.hpp"

namespace rb {
namespace {

// A magic number is eight letters: six are the same in every version, and two identify the version.
constexpr std::size_t kLetters = 8, kOfEveryVersion = 6;

std::string letters(std::uint64_t magic) {
  std::string text(kLetters, '\0');
  std::memcpy(text.data(), &magic, kLetters);
  for (char& letter : text)
    if (letter < ' ' || letter > '~') letter = '?';
  return text;
}

}  // namespace

std::string description_of(const std::string& segment) {
  const Memory memory = Memory::attach(segment);
  const std::string what = "shared segment " + segment;
  const std::string ours = letters(SegmentHeader::kMagic);
  if (memory.bytes() < kLetters) throw std::invalid_argument(what + " was not made by this library");
  const std::uint64_t magic = magic_at(memory.data());
  if (magic == 0) throw std::invalid_argument(what + " is still being created, or was not made by this library");
  const std::string its = letters(magic);
  if (its.compare(0, kOfEveryVersion, ours, 0, kOfEveryVersion) != 0)
    throw std::invalid_argument(what + " was not made by this library");
  if (its != ours)
    throw std::runtime_error(what + " has layout " + its + ", but this version of the library uses " + ours +
                             ": all processes must use the same version");
  if (memory.bytes() < sizeof(SegmentHeader)) throw std::invalid_argument(what + " was cut short");
  const auto* header = reinterpret_cast<const SegmentHeader*>(memory.data());
  const std::uint64_t at = header->description_at, bytes = header->description_bytes;
  if (header->bytes != memory.bytes() || at > memory.bytes() || bytes > memory.bytes() - at)
    throw std::invalid_argument(what + " was cut short");
  return std::string(memory.data() + at, bytes);
}

}  // namespace rb
