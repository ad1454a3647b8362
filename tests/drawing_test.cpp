#include <sluice/drawing.hpp>

#include <cstddef>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/plan.hpp>

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;

Plan plan_of(int stages, int microbatches, ScheduleName schedule = ScheduleName::drain) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.schedule = schedule;
  return derive_plan(config);
}

Track track_of(const Plan& plan) {
  Track track;
  track.heading = "planned";
  track.actions = plan.timeline.actions;
  track.stages = plan.stages;
  return track;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Whether every tag that opens is closed, in order; what does not close by itself in HTML counts
/// as empty.
bool is_balanced(const std::string& text) {
  static const std::regex tag("<(/?)([a-zA-Z][a-zA-Z0-9]*)([^<>]*)>");
  std::vector<std::string> open;
  for (std::sregex_iterator it(text.begin(), text.end(), tag), end; it != end; ++it) {
    const std::string name = (*it)[2];
    if (name == "meta" || (*it)[3].str().ends_with('/')) continue;
    if ((*it)[1].length() == 0) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

TEST(Drawing, EveryActionIsACellWithItsNumber) {
  const Plan plan = plan_of(4, 8);
  const std::string svg = draw_svg({track_of(plan)});
  EXPECT_TRUE(svg.starts_with("<svg xmlns="));
  EXPECT_TRUE(is_balanced(svg));
  EXPECT_EQ(count(svg, "<g class=\"cell F\" data-mb="), 32U);
  EXPECT_EQ(count(svg, "<g class=\"cell B\" data-mb="), 32U);
  EXPECT_EQ(count(svg, "class=\"lane\""), 4U);
  EXPECT_THAT(svg, HasSubstr("<title>2F5: stage 2, forward of microbatch 5, 12 to 13</title>"));
  EXPECT_THAT(svg, HasSubstr(">5</text></g>"));
}

TEST(Drawing, TheLegendNamesThePhasesThatAreThere) {
  const std::string whole = draw_svg({track_of(plan_of(4, 8))});
  EXPECT_THAT(whole, HasSubstr(">backward</text>"));
  EXPECT_THAT(whole, Not(HasSubstr("gradient")));
  const std::string split = draw_svg({track_of(plan_of(4, 8, ScheduleName::zb_h1))});
  EXPECT_THAT(split, HasSubstr(">input gradient</text>"));
  EXPECT_THAT(split, HasSubstr(">weight gradient</text>"));
  EXPECT_THAT(split, Not(HasSubstr(">backward")));
}

TEST(Drawing, WhatStartsTogetherStandsTogether) {
  // 3B0 and 0F4 do not, 3F0 ends where 3B0 begins: columns follow time.
  const Plan plan = plan_of(4, 8);
  const std::string svg = draw_svg({track_of(plan)});
  const auto rect = [&svg](const std::string& action) {
    std::smatch found;
    const std::regex cell("<title>" + action +
                          ":[^<]*</title><rect x=\"([0-9.]+)\" y=\"([0-9]+)\" "
                          "width=\"([0-9.]+)\"");
    EXPECT_TRUE(std::regex_search(svg, found, cell)) << action;
    return std::vector<double>{std::stod(found[1]), std::stod(found[2]), std::stod(found[3])};
  };
  EXPECT_NEAR(rect("3F0")[0] + rect("3F0")[2], rect("3B0")[0], 0.02);
  EXPECT_EQ(rect("3F0")[1], rect("3B0")[1]);
  EXPECT_EQ(rect("0F3")[0], rect("3F0")[0]);
  EXPECT_LT(rect("0F3")[1], rect("3F0")[1]);
}

TEST(Drawing, SplitBackwardHasItsOwnColour) {
  const std::string svg = draw_svg({track_of(plan_of(4, 8, ScheduleName::zb_h1))});
  EXPECT_EQ(count(svg, "<g class=\"cell I\" data-mb="), 32U);
  EXPECT_EQ(count(svg, "<g class=\"cell W\" data-mb="), 32U);
}

TEST(Drawing, OneTrackUnderTheOtherAndAnArrow) {
  const Plan plan = plan_of(2, 3);
  Track measured = track_of(plan);
  measured.heading = "measured";
  measured.unit = " ms";
  measured.mark = Mark{StageId(1), Time::from_units(2), "seq 7: <mb-order>"};
  const std::string svg = draw_svg({track_of(plan), measured});
  EXPECT_TRUE(is_balanced(svg));
  EXPECT_LT(svg.find(">planned<"), svg.find(">measured<"));
  EXPECT_EQ(count(svg, "data-mb="), 24U);
  EXPECT_THAT(svg, HasSubstr("seq 7: &lt;mb-order&gt;"));
  EXPECT_THAT(svg, HasSubstr(" ms</text>"));
  // What the arrow says covers no cell: it stands as high as the heading.
  const auto height = [&svg](const std::string& text) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(svg, found, std::regex("y=\"([0-9]+)\"[^<]*>" + text + "<")));
    return std::stoi(found[1]);
  };
  EXPECT_EQ(height("seq 7: &lt;mb-order&gt;"), height("measured"));
}

TEST(Drawing, ALongStepIsCutAndSaidSo) {
  const std::string svg = draw_svg({track_of(plan_of(4, 4000))});
  EXPECT_EQ(count(svg, "data-mb="), 20'000U);
  EXPECT_THAT(svg, HasSubstr(": 12000 of 32000 actions start later"));
  EXPECT_LT(svg.size(), 10'000'000U);
}

TEST(Drawing, NothingToDrawIsAnEmptyPicture) {
  Track track;
  track.stages = 3;
  const std::string svg = draw_svg({track});
  EXPECT_TRUE(is_balanced(svg));
  EXPECT_EQ(count(svg, "class=\"lane\""), 3U);
}

TEST(Drawing, APageNeedsNothingElse) {
  const Plan plan = plan_of(4, 8);
  const std::string html = draw_html("S=4 <M=8>", "credits & gate", {track_of(plan)});
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_THAT(html, HasSubstr("<title>S=4 &lt;M=8&gt;</title>"));
  EXPECT_THAT(html, HasSubstr("<pre>credits &amp; gate</pre>"));
  EXPECT_EQ(count(html, "data-mb=\""), 64U);
  // Nothing is fetched: no address but the name of a notation.
  EXPECT_EQ(count(html, "http"), count(html, "http://www.w3.org/2000/svg"));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
}

}  // namespace
}  // namespace sluice
