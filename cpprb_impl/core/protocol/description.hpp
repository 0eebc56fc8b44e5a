// The description in a shared segment, for processes that only know the segment's name.
#pragma once

#include <string>

namespace rb {

// Returns the description that the segment's creator stored in it (SharedStore::Shape). Throws std::system_error
// (ENOENT if the segment is gone), std::invalid_argument if it is not a segment of this library or was cut short,
// std::runtime_error if a different version of the library created it.
std::string description_of(const std::string& segment);

}  // namespace rb
