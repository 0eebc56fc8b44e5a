// The threads of an execution, as fibers: which one runs next, and which ones die. model.hpp declares what programs
// call.
#pragma once

#include "knowledge.hpp"
#include "model.hpp"

namespace weak::model {

// One execution: main() is thread 0.
Outcome run(const Options& options, const std::function<void()>& main);
bool is_running();
const Options& options();

// What the running thread knows, and the step of docs/protocol.md that it has come to.
Knowledge& mine();
const char* step();

// Before each operation: others may run, and the thread may die.
void before_operation();
// Prints a line about the running thread, if the execution is traced.
void trace(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace weak::model
