// The one unit that compiles Asio. Every other unit sees declarations only
// (ASIO_SEPARATE_COMPILATION), which makes it build in less than half the time.
#include <asio/impl/src.hpp>
