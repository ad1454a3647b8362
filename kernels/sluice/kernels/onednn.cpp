#include <sluice/kernels/onednn.hpp>

#include <algorithm>
#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include <sluice/kernels/openmp.hpp>
#include <sluice/kernels/tensor.hpp>

namespace sluice::kernels {
namespace {

using dnnl::memory;

std::atomic<bool> any_primitive_made{false};

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

std::string isa_name(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41: return "sse41";
    case dnnl::cpu_isa::avx: return "avx";
    case dnnl::cpu_isa::avx2: return "avx2";
    case dnnl::cpu_isa::avx2_vnni: return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core: return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni: return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16: return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx: return "avx512_core_amx";
    default: return fmt::format("isa {:#x}", static_cast<unsigned>(isa));
  }
}

std::string no_fast_kernel(std::string_view where, std::string_view pass,
                           const LinearLayouts& layouts, std::string_view found) {
  const auto input = layouts.input.dims();
  return fmt::format(
      "{}: {} of {} samples, {} inputs, {} outputs: expected a kernel made for this processor "
      "({}), "
      "found {}; run on a processor with AVX2 or AVX-512, and do not lower ONEDNN_MAX_CPU_ISA",
      where, pass, input[0], input[1], layouts.bias.dims()[0],
      isa_name(dnnl::get_effective_cpu_isa()), found);
}

/// `describe` makes a primitive descriptor, `Primitive` is what it describes.
template <class Primitive, class Describe>
Kernel make_kernel(const Workspace& workspace, std::string_view where, std::string_view pass,
                   const LinearLayouts& layouts, const std::vector<Kernel::Argument>& arguments,
                   Describe describe) {
  const KernelThreads limit(workspace.threads());  // the library plans its blocking for them
  any_primitive_made.store(true, std::memory_order_relaxed);
  std::string found;
  try {
    const auto description = describe();
    found = description.impl_info_str();
    if (found.rfind("ref", 0) != 0) {
      return Kernel(Primitive(description), description.scratchpad_desc(), found, arguments);
    }
  } catch (const dnnl::error& error) {
    found = fmt::format("none ({})", error.message);
  }
  throw std::runtime_error(no_fast_kernel(where, pass, layouts, found));
}

/// The forward that backward descriptors ask for as a hint. Without the fused ReLU: with it, the
/// library finds no backward for plain layouts.
dnnl::inner_product_forward::primitive_desc forward_hint(const LinearLayouts& layouts) {
  return {{dnnl::prop_kind::forward_training, layouts.input, layouts.weights, layouts.bias,
           layouts.output},
          attributes(),
          engine()};
}

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine the_engine(dnnl::engine::kind::cpu, 0);
  return the_engine;
}

int effective_kernel_threads(int wanted, int stages) {
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::clamp(wanted, 1, std::max(1, processors / std::max(1, stages)));
}

KernelIdentity kernel_identity(int threads) {
  const dnnl_version_t* version = dnnl_version();
  KernelIdentity identity;
  identity.library = fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
  identity.isa = isa_name(dnnl::get_effective_cpu_isa());
  identity.threads = threads;
  return identity;
}

int set_primitive_cache_capacity(int primitives) {
  if (primitives < 0) {
    throw std::invalid_argument(fmt::format(
        "primitive cache capacity: expected 0 or more, found {}; 1024 is the default", primitives));
  }
  if (any_primitive_made.load(std::memory_order_relaxed)) {
    throw std::logic_error(fmt::format(
        "primitive cache capacity: expected to be set before the first layer is made, found layers "
        "already there (capacity stays {}); set {} at the start of the program",
        dnnl::get_primitive_cache_capacity(), primitives));
  }
  dnnl::set_primitive_cache_capacity(primitives);
  return dnnl::get_primitive_cache_capacity();
}

KernelThreads::KernelThreads(int threads) : before_(omp_get_max_threads()) {
  // Inside a parallel region of the embedder's, more threads would be a nested team.
  omp_set_num_threads(omp_in_parallel() != 0 ? 1 : threads);
}

KernelThreads::~KernelThreads() { omp_set_num_threads(before_); }

void Workspace::Free::operator()(std::byte* storage) const {
  ::operator delete[](storage, std::align_val_t(alignment));
}

Workspace::Workspace(int threads) : threads_(threads), stream_(engine()) {}

void* Workspace::scratch(std::size_t bytes) {
  bytes = std::max(bytes, alignment);  // the library dereferences the address even of nothing
  if (bytes > scratch_bytes_) {
    scratch_.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t(alignment))));
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

Kernel::Kernel(const dnnl::primitive& primitive, const dnnl::memory::desc& scratch,
               std::string implementation, const std::vector<Argument>& arguments)
    : primitive_(primitive),
      scratch_bytes_(scratch.get_size()),
      implementation_(std::move(implementation)) {
  void* const not_yet = nullptr;
  for (const auto& [role, layout] : arguments) {
    memories_.emplace_back(layout, engine(), not_yet);
    bound_.push_back({role, memories_.back().get()});
  }
  memories_.emplace_back(scratch, engine(), not_yet);
  bound_.push_back({DNNL_ARG_SCRATCHPAD, memories_.back().get()});
}

void Kernel::run(Workspace& workspace, std::span<const void* const> addresses) {
  if (addresses.size() + 1 != memories_.size()) {
    throw std::logic_error(fmt::format("kernel {}: expected {} addresses, found {}",
                                       implementation_, memories_.size() - 1, addresses.size()));
  }
  const KernelThreads limit(workspace.threads());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    memories_[i].set_data_handle(const_cast<void*>(addresses[i]));
  }
  memories_.back().set_data_handle(workspace.scratch(scratch_bytes_));
  // On the processor's engine this returns when the work is done. The C function takes the arguments
  // as they are bound; the C++ one would build a list of them each time.
  dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), workspace.stream().get(),
                                                 static_cast<int>(bound_.size()), bound_.data()),
                          "a kernel could not be executed");
}

memory::desc plain_layout(const memory::dims& dims) {
  const auto tag = dims.size() == 1 ? memory::format_tag::a : memory::format_tag::ab;
  return {dims, memory::data_type::f32, tag};
}

LinearLayouts preferred_linear_layouts(const Workspace& workspace, std::int64_t samples,
                                       std::int64_t inputs, std::int64_t outputs) {
  const KernelThreads limit(workspace.threads());
  any_primitive_made.store(true, std::memory_order_relaxed);
  LinearLayouts layouts;
  layouts.input = plain_layout({samples, inputs});
  layouts.weights =
      memory::desc({outputs, inputs}, memory::data_type::f32, memory::format_tag::any);
  layouts.bias = plain_layout({outputs});
  layouts.output = plain_layout({samples, outputs});
  layouts.weights = forward_hint(layouts).weights_desc();
  return layouts;
}

Kernel linear_forward(const Workspace& workspace, std::string_view where,
                      const LinearLayouts& layouts, bool relu) {
  return make_kernel<dnnl::inner_product_forward>(
      workspace, where, "forward", layouts,
      {{DNNL_ARG_SRC, layouts.input},
       {DNNL_ARG_WEIGHTS, layouts.weights},
       {DNNL_ARG_BIAS, layouts.bias},
       {DNNL_ARG_DST, layouts.output}},
      [&] {
        dnnl::primitive_attr attr = attributes();
        if (relu) {
          dnnl::post_ops after;
          after.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
          attr.set_post_ops(after);
        }
        return dnnl::inner_product_forward::primitive_desc(
            {dnnl::prop_kind::forward_training, layouts.input, layouts.weights, layouts.bias,
             layouts.output},
            attr, engine());
      });
}

Kernel linear_backward_data(const Workspace& workspace, std::string_view where,
                            const LinearLayouts& layouts) {
  return make_kernel<dnnl::inner_product_backward_data>(
      workspace, where, "backward data", layouts,
      {{DNNL_ARG_DIFF_DST, layouts.output},
       {DNNL_ARG_WEIGHTS, layouts.weights},
       {DNNL_ARG_DIFF_SRC, layouts.input}},
      [&] {
        return dnnl::inner_product_backward_data::primitive_desc(
            {layouts.input, layouts.weights, layouts.output}, attributes(), engine(),
            forward_hint(layouts));
      });
}

Kernel linear_backward_weights(const Workspace& workspace, std::string_view where,
                               const LinearLayouts& layouts) {
  return make_kernel<dnnl::inner_product_backward_weights>(
      workspace, where, "backward weights", layouts,
      {{DNNL_ARG_SRC, layouts.input},
       {DNNL_ARG_DIFF_DST, layouts.output},
       {DNNL_ARG_DIFF_WEIGHTS, layouts.weights},
       {DNNL_ARG_DIFF_BIAS, layouts.bias}},
      [&] {
        return dnnl::inner_product_backward_weights::primitive_desc(
            {layouts.input, layouts.weights, layouts.bias, layouts.output}, attributes(), engine(),
            forward_hint(layouts));
      });
}

Kernel reorder(const Workspace& workspace, const memory::desc& from, const memory::desc& to) {
  const KernelThreads limit(workspace.threads());
  const dnnl::reorder::primitive_desc description(engine(), from, engine(), to, attributes());
  return Kernel(dnnl::reorder(description), description.scratchpad_desc(),
                description.impl_info_str(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

}  // namespace sluice::kernels
