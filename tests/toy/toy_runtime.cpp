// The runtime for the toy's values, which every test would otherwise compile for itself.
#include "toy_model.hpp"

namespace sluice::detail {

SLUICE_TOY_COROUTINES(template)

}  // namespace sluice::detail
