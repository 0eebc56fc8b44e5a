// The operations in the source, and those whose orders are weakened. sites() and weaken() are in model.hpp.
#pragma once

#include "model.hpp"

namespace weak::model {

// Notes that an operation was executed, at a step of docs/protocol.md, and takes away from its orders what is weakened.
// `at`: its word; null for a fence.
void come_by(const char* kind, const void* at, const char* step, Order& order, Order& on_failure, const Where& where);

}  // namespace weak::model
