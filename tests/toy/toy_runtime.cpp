#include "toy_model.hpp"

SLUICE_COMPILED_ONCE(template, sluice::test::Toy)
