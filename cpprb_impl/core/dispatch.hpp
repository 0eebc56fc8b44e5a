// Functions in several versions, for older and newer processors; the right one is chosen when the
// module is loaded, so that a binary built anywhere runs anywhere.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define RB_FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define RB_FOR_EACH_CPU
#endif
