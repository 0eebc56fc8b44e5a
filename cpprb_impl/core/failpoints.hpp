// The numbered steps of docs/protocol.md in the code, where tests kill and stop processes: RB_POINT(E4) stands just
// before what E4 does. Nothing at all in a normal build; -DPOINTS=ON builds the other one (.ci/crash).
#pragma once

#ifdef RB_POINTS
namespace rb {
void reached(const char* point);
}
#define RB_POINT(name) ::rb::reached(#name)
#else
#define RB_POINT(name) static_cast<void>(0)
#endif
