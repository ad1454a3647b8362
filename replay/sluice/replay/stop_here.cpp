#include <sluice/replay/stop_here.hpp>

// Kept by every optimiser: a function of its own, with an argument that somebody might read.
extern "C" [[gnu::noinline, gnu::used]] void sluice_stop_here(const char* where) {
  asm volatile("" : : "r"(where) : "memory");
}
