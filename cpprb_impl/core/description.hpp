// What a shared segment says about itself, to processes that know nothing but its name.
#pragma once

#include <string>

namespace rb {

// The text that its maker gave it (SharedStore::Shape). Throws std::system_error (ENOENT when it is gone),
// std::invalid_argument for what is no segment or was cut short, std::runtime_error for another version's.
std::string description_of(const std::string& segment);

}  // namespace rb
