// Functions compiled in several versions, for older and newer processors. The right one is chosen when the module is
// loaded, so a binary runs on any of them wherever it was built.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define RB_FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define RB_FOR_EACH_CPU
#endif
