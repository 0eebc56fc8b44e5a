// explore litmus <executions>
// explore list
// explore sites <scenario> <executions>          the operations that it executed, one per line
// explore run <scenario> <executions> <seed> [<file> <line> <column> <region> <part>]...
// explore trace <the same, of one execution>
// With `run`, prints after how many executions the scenario failed, and how, or that it held.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "litmus.hpp"
#include "world.hpp"

namespace {

using namespace weak;

const Scenario* scenario_of(const char* name) {
  for (const auto& each : scenarios())
    if (std::strcmp(each.name, name) == 0) return &each;
  std::fprintf(stderr, "no scenario %s\n", name);
  std::exit(2);
}

std::string letters(const Order& order) {
  return std::string(order.acquire ? "a" : "") + (order.release ? "r" : "") + (order.consistent ? "c" : "");
}

void print_sites() {
  for (const Site& site : sites()) {
    std::string steps;
    for (const auto& step : site.steps) steps += (steps.empty() ? "" : ",") + (step.empty() ? "-" : step);
    std::printf("%s\t%u\t%u\t%s\t%s\t%s\t%s\t%s\t%s\n", site.file.c_str(), site.line, site.column, site.region.c_str(),
                site.kind.c_str(), letters(site.order).c_str(), letters(site.on_failure).c_str(), steps.c_str(),
                site.function.c_str());
  }
}

int run(const Scenario& scenario, std::uint64_t executions, std::uint64_t seed, bool trace) {
  const World world(scenario.setting);
  std::uint64_t cut = 0;
  for (std::uint64_t i = 0; i < executions; ++i) {
    Options options;
    options.seed = seed + i;
    options.trace = trace;
    options.name = [&](const void* at) { return world.name_of(at); };
    allocations_left = -1;
    const Outcome outcome = execute(options, [&] { scenario.run(world); });
    cut += outcome.cut;
    if (outcome.failure.empty()) continue;
    std::printf("failed\t%llu\t%llu\t%s\n", static_cast<unsigned long long>(i + 1),
                static_cast<unsigned long long>(options.seed), outcome.failure.c_str());
    return 1;
  }
  std::printf("held\t%llu\t%llu\n", static_cast<unsigned long long>(executions), static_cast<unsigned long long>(cut));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "litmus") return litmus_tests(std::strtoull(words[2], nullptr, 10)) ? 0 : 1;
  if (what == "list") {
    for (const auto& each : scenarios()) std::printf("%s\n", each.name);
    return 0;
  }
  if (count < 4) return 2;
  const Scenario& scenario = *scenario_of(words[2]);
  const std::uint64_t executions = std::strtoull(words[3], nullptr, 10);
  const std::uint64_t seed = count > 4 ? std::strtoull(words[4], nullptr, 10) : 1;
  for (char** order = words + 5; order + 5 <= words + count; order += 5)
    weaken(order[0], static_cast<unsigned>(std::atoi(order[1])), static_cast<unsigned>(std::atoi(order[2])),
           std::strcmp(order[3], "-") == 0 ? "" : order[3], order[4]);
  const int status = run(scenario, executions, seed, what == "trace");
  if (what == "sites") print_sites();
  return status;
}
