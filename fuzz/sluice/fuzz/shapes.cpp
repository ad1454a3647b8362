#include <sluice/fuzz/shapes.hpp>

#include <cstddef>
#include <string>

#include <fmt/format.h>

namespace sluice::fuzz {
namespace {

std::string listed(const std::vector<Time>& times) {
  std::vector<double> units;
  units.reserve(times.size());
  for (const Time time : times) units.push_back(time.units());
  return fmt::format("{}", fmt::join(units, ","));
}

rc::Gen<std::vector<Time>> gen_times(std::size_t count, Time least) {
  return rc::gen::container<std::vector<Time>>(count, gen_time(least));
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << fmt::format("-S {} -M {} -W {} --forward {} --backward {}", shape.stages,
                            shape.microbatches, shape.drain_depth, shape.forward.units(),
                            shape.backward.units());
}

std::ostream& operator<<(std::ostream& out, const Uneven& uneven) {
  return out << fmt::format("-S {} -M {} --credits {} --forward {} --backward {} --link {}",
                            uneven.stages, uneven.microbatches, fmt::join(uneven.credits, ","),
                            listed(uneven.costs.forward), listed(uneven.costs.backward),
                            listed(uneven.costs.link));
}

rc::Gen<Time> gen_time(Time least) {
  constexpr std::int64_t hundredth = Time::per_unit / 100;
  return rc::gen::map(rc::gen::inRange<std::int64_t>(least.millionths / hundredth, 401),
                      [](std::int64_t n) { return Time::from_millionths(n * hundredth); });
}

rc::Gen<Shape> gen_shape() {
  return rc::gen::exec([] {
    Shape shape;
    shape.stages = *rc::gen::inRange(1, 9);
    shape.microbatches = *rc::gen::inRange(1, 25);
    shape.drain_depth = *rc::gen::inRange(0, shape.microbatches + shape.stages + 1);
    shape.forward = *gen_time(Time::from_units(0.01));
    shape.backward = *gen_time(Time::from_units(0.01));
    return shape;
  });
}

rc::Gen<Uneven> gen_uneven() {
  return rc::gen::exec([] {
    Uneven uneven;
    uneven.stages = *rc::gen::inRange(1, 7);
    uneven.microbatches = *rc::gen::inRange(1, 17);
    const auto count = static_cast<std::size_t>(uneven.stages);
    uneven.credits =
        *rc::gen::container<std::vector<int>>(count, rc::gen::inRange(1, uneven.microbatches + 3));
    uneven.costs.forward = *gen_times(count, Time());
    uneven.costs.backward = *gen_times(count, Time());
    uneven.costs.link = *gen_times(count - 1, Time());
    return uneven;
  });
}

}  // namespace sluice::fuzz
