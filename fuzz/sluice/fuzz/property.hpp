// Properties in a GoogleTest program. One line holds a schedule of your own against the law, at any shape:
//
//     PlanConfig staircase(const sluice::fuzz::Shape& shape);        // yours
//     SLUICE_HOLDS_AT_ANY_SHAPE(Staircase, staircase)
//
// and SLUICE_PROPERTY(Staircase, NeverWaits) { ... } is any other property, with rapidcheck's generators and
// assertions. A failure prints the case that failed first, as soon as it does; then, once, the smallest one
// that it could be shrunk to, what is wrong with it, and the command that runs this case alone.
#pragma once

#include <functional>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/detail/TestListenerAdapter.h>

#include <sluice/fuzz/holds.hpp>
#include <sluice/fuzz/shapes.hpp>

namespace sluice::fuzz {

/// Says which case failed first, when it does. (rapidcheck keeps only the smallest.)
class FirstFailure final : public rc::detail::TestListenerAdapter {
 public:
  void onTestCaseFinished(const rc::detail::CaseDescription& tried) override {
    if (said_ || tried.result.type != rc::detail::CaseResult::Type::Failure) return;
    said_ = true;
    std::string values;
    for (const auto& [type, value] : tried.example()) {
      values += (values.empty() ? "" : "; ") + value;
    }
    fmt::print(stderr, "failed at {}; looking for a smaller case\n", values);
  }

 private:
  bool said_ = false;
};

/// The body of the tests that the macros make. `remark`, unless empty, has the last word on a failure.
inline void expect_property(const std::function<void()>& property,
                            const std::function<std::string()>& remark = {}) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  rc::detail::TestMetadata metadata;
  metadata.id = fmt::format("{}/{}", test->test_suite_name(), test->name());
  metadata.description = test->name();
  const auto& configuration = rc::detail::configuration();
  FirstFailure first;
  const auto result = rc::detail::checkTestable(property, metadata, configuration.testParams, first,
                                                configuration.reproduce);
  std::ostringstream report;
  rc::detail::printResultMessage(result, report);
  if (result.template is<rc::detail::SuccessResult>()) {
    if (!result.template get<rc::detail::SuccessResult>().distribution.empty()) {
      std::cout << report.str() << std::endl;
    }
    return;
  }
  if (result.template is<rc::detail::FailureResult>()) {
    rc::detail::Configuration only;
    only.reproduce[metadata.id] = result.template get<rc::detail::FailureResult>().reproduce;
    report << fmt::format("\nthis case alone: RC_PARAMS='{}' {} --gtest_filter={}.{}\n",
                          rc::detail::configToMinimalString(only),
                          testing::internal::GetArgvs().front(), test->test_suite_name(),
                          test->name());
    if (remark) report << remark();
  }
  FAIL() << report.str();
}

/// `wrong` says what is wrong at a shape.
inline void expect_at_any_shape(const std::function<std::string(const Shape&)>& wrong) {
  std::optional<Shape> last;  // that failed: the smallest, in the end
  expect_property(
      [&] {
        const Shape shape = *gen_shape();
        const std::string found = wrong(shape);
        if (found.empty()) return;
        last = shape;
        RC_FAIL(found);
      },
      [&] {
        return std::string(wrong(*last).empty() ? "run once more, this case does not fail: what "
                                                  "is tested is not deterministic\n"
                                                : "");
      });
}

/// The same for a schedule: `holds` of what it makes of a shape.
inline void expect_law_at_any_shape(const std::function<PlanConfig(const Shape&)>& schedule) {
  expect_at_any_shape([&schedule](const Shape& shape) { return holds(schedule(shape)); });
}

}  // namespace sluice::fuzz

/// A property of a suite; its body follows.
#define SLUICE_PROPERTY(suite, name)                                                       \
  void sluice_property_##suite##_##name();                                                 \
  TEST(suite, name) { ::sluice::fuzz::expect_property(sluice_property_##suite##_##name); } \
  void sluice_property_##suite##_##name()

/// Behind `suite`: whatever makes a PlanConfig of a sluice::fuzz::Shape.
#define SLUICE_HOLDS_AT_ANY_SHAPE(suite, ...) \
  TEST(suite, HoldsAtAnyShape) { ::sluice::fuzz::expect_law_at_any_shape(__VA_ARGS__); }
