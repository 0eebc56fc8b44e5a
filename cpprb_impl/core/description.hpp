// The description in a shared segment, for processes that only know the segment's name.
#pragma once

#include <string>

namespace rb {

// The description that its maker stored (SharedStore::Shape). Throws std::system_error (ENOENT if it is gone),
// std::invalid_argument if it is not a segment or was cut short, std::runtime_error if another version made it.
std::string description_of(const std::string& segment);

}  // namespace rb
