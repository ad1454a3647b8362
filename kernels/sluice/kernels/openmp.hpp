// The three functions of OpenMP's runtime that limit a thread's kernels. Declared here, not taken from
// omp.h, because GCC's omp.h cannot be read by other compilers; include it in sources only.
#pragma once

extern "C" {
/// How many threads a parallel region that this thread starts will have.
int omp_get_max_threads() noexcept;
/// Sets that, for this thread alone.
void omp_set_num_threads(int threads) noexcept;
/// Not 0 inside a parallel region.
int omp_in_parallel() noexcept;
}
