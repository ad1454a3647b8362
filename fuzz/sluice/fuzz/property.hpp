// One line of a GoogleTest program holds a schedule of your own against the law, at any shape:
//
//     PlanConfig staircase(const sluice::fuzz::Shape& shape);        // yours
//     SLUICE_HOLDS_AT_ANY_SHAPE(Staircase, staircase)
//
// A failure prints the shape that failed first, as soon as it does; then, once, the smallest one it could be
// shrunk to, what is wrong with it, and the command that runs this case alone. Shapes are printed from
// copies made before the run.
#pragma once

#include <functional>
#include <optional>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <sluice/fuzz/holds.hpp>
#include <sluice/fuzz/shapes.hpp>

namespace sluice::fuzz {

/// The body of the test that the macro makes. `wrong` says what is wrong at a shape.
inline void expect_at_any_shape(const std::function<std::string(const Shape&)>& wrong) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  rc::detail::TestMetadata metadata;
  metadata.id = fmt::format("{}/{}", test->test_suite_name(), test->name());
  metadata.description = test->name();

  std::optional<Shape> last;  // that failed: the smallest, in the end
  const auto result = rc::detail::checkTestable(
      [&] {
        const Shape shape = *gen_shape();
        const std::string found = wrong(shape);
        if (found.empty()) return;
        if (!last) {
          std::ostringstream line;
          line << shape;
          fmt::print(stderr, "failed at {}; looking for a smaller shape\n", line.str());
        }
        last = shape;
        RC_FAIL(found);
      },
      metadata);
  if (result.template is<rc::detail::SuccessResult>()) return;

  std::ostringstream report;
  rc::detail::printResultMessage(result, report);
  if (result.template is<rc::detail::FailureResult>()) {
    rc::detail::Configuration only;
    only.reproduce[metadata.id] = result.template get<rc::detail::FailureResult>().reproduce;
    report << fmt::format("\nthis case alone: RC_PARAMS='{}' {} --gtest_filter={}.{}\n",
                          rc::detail::configToMinimalString(only),
                          testing::internal::GetArgvs().front(), test->test_suite_name(),
                          test->name());
    if (wrong(*last).empty()) {
      report << "run once more, this case does not fail: what is tested is not deterministic\n";
    }
  }
  FAIL() << report.str();
}

/// The same for a schedule: `holds` of what it makes of a shape.
inline void expect_law_at_any_shape(const std::function<PlanConfig(const Shape&)>& schedule) {
  expect_at_any_shape([&schedule](const Shape& shape) { return holds(schedule(shape)); });
}

}  // namespace sluice::fuzz

/// Behind `suite`: whatever makes a PlanConfig of a sluice::fuzz::Shape.
#define SLUICE_HOLDS_AT_ANY_SHAPE(suite, ...) \
  TEST(suite, HoldsAtAnyShape) { ::sluice::fuzz::expect_law_at_any_shape(__VA_ARGS__); }
