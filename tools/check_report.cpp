#include "check_report.hpp"

#include <utility>

#include <fmt/format.h>

namespace sluice::tools {
namespace {

Json json_of(const Inference& inference) {
  Json json;
  json["stages"] = inference.stages;
  json["microbatches"] = inference.microbatches;
  json["drain_depth"] = inference.drain_depth;
  json["chunks"] = inference.chunks;
  json["schedules"] = Json::array();
  for (const Guess& guess : inference.schedules) {
    json["schedules"].push_back(std::string(to_string(guess.schedule)));
  }
  json["sure"] = inference.sure();
  json["doubts"] = inference.doubts;
  return json;
}

}  // namespace

Json json_of(const LogFinding& finding) {
  Json json = tools::json_of(static_cast<const Finding&>(finding));
  if (finding.line > 0) {
    json["log"] = finding.log;
    json["line"] = finding.line;
  }
  if (!finding.last_good.empty()) json["last_good"] = finding.last_good;
  if (finding.count > 1) json["count"] = finding.count;
  return json;
}

Json json_of(const LogReport& report, std::span<const Finding> warnings) {
  Json json;
  json["verdict"] = std::string(to_string(report.verdict));
  json["records"] = report.records;
  json["steps"] = report.steps;
  Json findings = Json::array();
  for (const LogFinding& finding : report.findings) findings.push_back(json_of(finding));
  for (const Finding& finding : warnings) findings.push_back(tools::json_of(finding));
  json["findings"] = std::move(findings);
  if (report.inference && report.inference->stages > 0)
    json["inferred"] = json_of(*report.inference);
  return json;
}

Json rejected_json(std::span<const Finding> findings) {
  Json json;
  json["verdict"] = std::string(to_string(Verdict::rejected));
  json["records"] = 0;
  json["findings"] = tools::json_of(findings);
  return json;
}

std::string verdict_of(const LogReport& report) {
  return fmt::format("{}: {} records, {} step{}\n", to_string(report.verdict), report.records,
                     report.steps, report.steps == 1 ? "" : "s");
}

std::string text_of(const LogReport& report, std::span<const Finding> warnings, bool has_log) {
  std::string text;
  for (const LogFinding& finding : report.findings) text += finding.message + '\n';
  for (const Finding& finding : warnings) {
    text += fmt::format("warning: {}: {}\n", finding.rule, finding.message);
  }
  if (!has_log) return text + fmt::format("{}: the configuration\n", to_string(report.verdict));
  if (report.inference && report.inference->stages > 0) {
    text += fmt::format("the log says: {}{}\n", to_string(*report.inference),
                        report.inference->sure() ? ", for certain" : "");
    for (const std::string& doubt : report.inference->doubts)
      text += fmt::format("  but {}\n", doubt);
  }
  return text + verdict_of(report);
}

}  // namespace sluice::tools
