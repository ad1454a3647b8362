// Tensor: the value that moves through a pipeline of this library's layers.
//
// Made by data sets and by stages; moved from stage to stage by the runtime, which never looks
// inside. Data is always dense, row-major and 64-byte aligned: what a layer keeps in another layout
// is its own business and never shows here. Copying is explicit (`clone`), and so is a second handle on
// the same storage (`share`): whoever writes to a shared one gets a copy first. A tensor that is not
// shared may be handed to another thread by moving it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <string>

namespace sluice::kernels {

/// Where storage starts; one cache line, and the widest vector register.
inline constexpr std::size_t alignment = 64;

/// Element types. Labels are s32, everything else is f32; both are four bytes wide.
enum class DType : std::uint8_t { f32, s32 };

/// Sizes of up to four dimensions, outermost first. Rank 0 stands for "nothing": no elements.
class Dims {
 public:
  static constexpr std::size_t max_rank = 4;

  Dims() = default;
  /// Throws std::invalid_argument on more than four sizes, a negative one, or a product whose bytes
  /// do not fit in 63 bits.
  Dims(std::initializer_list<std::int64_t> sizes);

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t axis) const { return sizes_[axis]; }
  /// Product of the sizes; 0 for rank 0.
  std::int64_t elements() const;

  friend bool operator==(const Dims&, const Dims&) = default;

 private:
  std::array<std::int64_t, max_rank> sizes_{};
  std::size_t rank_ = 0;
};

/// `(32, 784)`.
std::string to_string(const Dims& dims);

class Tensor {
 public:
  /// Empty: rank 0, no storage.
  Tensor() = default;
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() = default;

  static Tensor zeros(DType type, const Dims& dims);
  /// For a caller that writes every element before anyone reads one.
  static Tensor uninitialized(DType type, const Dims& dims);
  Tensor clone() const;
  /// Costs no copy until one of the two is written to: through `f32` or `s32` of a tensor that is not
  /// const. One thread at a time for both.
  Tensor share() const;

  bool empty() const { return dims_.elements() == 0; }
  DType type() const { return type_; }
  const Dims& dims() const { return dims_; }
  std::size_t bytes() const { return static_cast<std::size_t>(dims_.elements()) * 4; }

  /// All elements, row-major. Throws std::invalid_argument when the tensor holds the other type; an
  /// empty tensor gives an empty span of either.
  std::span<float> f32();
  std::span<const float> f32() const;
  std::span<std::int32_t> s32();
  std::span<const std::int32_t> s32() const;

  /// Gives the same storage other sizes. Throws std::invalid_argument unless the number of elements
  /// stays; the type may change, the contents then mean nothing.
  void reshape(DType type, const Dims& dims);

  /// XXH3 (64 bits) over type, sizes and the bits of every element.
  std::uint64_t hash() const;

 private:
  struct Free {
    void operator()(std::byte* storage) const {
      ::operator delete[](storage, std::align_val_t(alignment));
    }
  };

  void require(DType type) const;
  void stop_sharing();

  std::shared_ptr<std::byte[]> storage_;
  Dims dims_;
  DType type_ = DType::f32;
};

}  // namespace sluice::kernels
