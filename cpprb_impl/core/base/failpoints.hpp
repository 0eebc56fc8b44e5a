// Failpoints mark the numbered steps of docs/protocol.md in the code, where tests kill and stop processes.
// RB_FAILPOINT(E4) is placed immediately before step E4. It expands to nothing in a normal build; CMake's
// -DFAILPOINTS=ON enables failpoints (.ci/crash).
#pragma once

#ifdef RB_FAILPOINTS
namespace rb {
void reached(const char* failpoint);
}
#define RB_FAILPOINT(name) ::rb::reached(#name)
#else
#define RB_FAILPOINT(name) static_cast<void>(0)
#endif
