// The one place that speaks oneDNN's own vocabulary (2.6 here; 3.x has no operation descriptors and
// other names), so that a change of its version stays in this pair of files.
//
// Used by layers only. What they need: memory layouts, primitives with their arguments bound once,
// and a Workspace, of which every stage owns one. Three rules hold everywhere:
//  - Scratch memory is the stage's own, given at each execution. The library's default belongs to the
//    thread that made the primitive, and a stage may resume on any thread.
//  - The thread that makes or runs a primitive is limited to the stage's kernel threads while it does
//    so, and gets its old limit back: it is the embedder's thread.
//  - A reference implementation is refused: it is right, and a hundred times slower.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dnnl.hpp>

#if DNNL_VERSION_MAJOR != 2
#error "sluice's kernels are written for oneDNN 2.x; port kernels/sluice/kernels/onednn.cpp"
#endif

namespace sluice::kernels {

/// One engine for the process: a stream and a primitive must come from the same one.
const dnnl::engine& engine();

/// How many threads a stage's kernels use when `wanted` are asked for: at least one, and never so
/// many that `stages` running at once are more than the processors. Another count gives other bits,
/// so it belongs into a recording.
int effective_kernel_threads(int wanted, int stages);

/// What, besides the inputs, decides the bits of a result.
struct KernelIdentity {
  std::string library;  ///< "oneDNN 2.6.3"
  std::string isa;      ///< the widest instruction set in use, "avx512_core_bf16"
  int threads = 1;      ///< of each stage
};
KernelIdentity kernel_identity(int threads);

/// Bounds the library's own cache of compiled primitives (process-wide; 1024 entries unless set).
/// Returns the capacity in effect, read back. Throws std::logic_error once a layer has been made:
/// what is cached by then would stay. Call it before the first stage, from one thread.
int set_primitive_cache_capacity(int primitives);

/// While it lives, kernels on this thread use `threads` threads. Not to be held across a suspension.
class KernelThreads {
 public:
  explicit KernelThreads(int threads);
  KernelThreads(const KernelThreads&) = delete;
  KernelThreads& operator=(const KernelThreads&) = delete;
  ~KernelThreads();

 private:
  int before_;
};

/// What the layers of one stage share: a stream, scratch memory, a number of threads. One call at a
/// time, from any thread.
class Workspace {
 public:
  /// `threads`: as `effective_kernel_threads` says.
  explicit Workspace(int threads);

  int threads() const { return threads_; }
  const dnnl::stream& stream() const { return stream_; }
  /// At least `bytes`; contents undefined. Valid until the next call.
  void* scratch(std::size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* storage) const;
  };

  int threads_;
  dnnl::stream stream_;
  std::unique_ptr<std::byte[], Free> scratch_;
  std::size_t scratch_bytes_ = 0;
};

/// A primitive with its arguments bound. Only the addresses of the data change between runs.
class Kernel {
 public:
  /// An argument's role (DNNL_ARG_...) and layout.
  using Argument = std::pair<int, dnnl::memory::desc>;

  Kernel(const dnnl::primitive& primitive, const dnnl::memory::desc& scratch,
         std::string implementation, const std::vector<Argument>& arguments);
  Kernel(Kernel&&) = default;
  Kernel& operator=(Kernel&&) = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel() = default;

  /// `addresses`: of each argument's data, in the constructor's order. The caller has checked that
  /// they hold what the layouts say: the library does not.
  void run(Workspace& workspace, std::span<const void* const> addresses);

  const std::string& implementation() const { return implementation_; }

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;  ///< the last one is the scratch memory
  std::vector<dnnl_exec_arg_t> bound_;
  std::size_t scratch_bytes_;
  std::string implementation_;
};

/// Row-major f32, the layout of every Tensor.
dnnl::memory::desc plain_layout(const dnnl::memory::dims& dims);

/// The layouts a linear layer computes with: `input` (samples, inputs), `weights` (outputs, inputs),
/// `bias` (outputs), `output` (samples, outputs).
struct LinearLayouts {
  dnnl::memory::desc input, weights, bias, output;
};

/// For `samples` at a time; the weights in whatever layout the processor likes best.
LinearLayouts preferred_linear_layouts(const Workspace& workspace, std::int64_t samples,
                                       std::int64_t inputs, std::int64_t outputs);

/// The kernels of a linear layer; `where` names it in errors. All throw std::runtime_error when this
/// processor has only a reference implementation. Arguments of `run`, in order:
/// forward: input, weights, bias, output.
Kernel linear_forward(const Workspace& workspace, std::string_view where,
                      const LinearLayouts& layouts, bool relu);
/// backward data: output gradient, weights, input gradient.
Kernel linear_backward_data(const Workspace& workspace, std::string_view where,
                            const LinearLayouts& layouts);
/// backward weights: input, output gradient, weight gradient, bias gradient.
Kernel linear_backward_weights(const Workspace& workspace, std::string_view where,
                               const LinearLayouts& layouts);

/// Copies from one layout to another; padding of the target becomes zero. Arguments: from, to.
Kernel reorder(const Workspace& workspace, const dnnl::memory::desc& from,
               const dnnl::memory::desc& to);

}  // namespace sluice::kernels
