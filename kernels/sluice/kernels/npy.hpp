// A tensor as the bytes of a .npy file, the format of NumPy's arrays (version 1.0): how recordings hold
// tensors, so that what comes out of one can be read anywhere.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sluice/kernels/tensor.hpp>

namespace sluice::kernels {

/// `numpy.load` reads it. An empty tensor is an array of shape (0,).
std::string to_npy(const Tensor& tensor);

/// What the header says.
struct NpyShape {
  std::string type;   ///< "f4", "i4"
  std::string shape;  ///< "(8, 24)"
};

/// Nothing for bytes that are no .npy file.
std::optional<NpyShape> npy_shape(std::string_view bytes);

}  // namespace sluice::kernels
