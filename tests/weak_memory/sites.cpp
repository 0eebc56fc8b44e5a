#include "sites.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace weak {
namespace model {
namespace {

struct Weakened {
  std::string file, region, part;
  unsigned line, column;
};

std::function<const char*(const void*)> region_of;
std::vector<Site> all_sites;
std::map<std::pair<const void*, std::uint64_t>, std::size_t> known_sites;  // a quick way to their numbers
std::vector<Weakened> weakened;

std::size_t number_of(const char* kind, const char* region, const Order& order, const Order& on_failure,
                      const Where& where) {
  const char* file = std::strrchr(where.file_name(), '/');
  file = file == nullptr ? where.file_name() : file + 1;
  const auto found = std::find_if(all_sites.begin(), all_sites.end(), [&](const Site& site) {
    return site.file == file && site.line == where.line() && site.column == where.column() && site.region == region;
  });
  const auto number = static_cast<std::size_t>(found - all_sites.begin());
  if (found == all_sites.end())
    all_sites.push_back(
        {file, where.function_name(), kind, where.line(), where.column(), region, order, on_failure, {}});
  return number;
}

Site& site_of(const char* kind, const void* at, const Order& order, const Order& on_failure, const Where& where) {
  const char* region = at != nullptr && region_of ? region_of(at) : "";
  const std::pair key{static_cast<const void*>(where.file_name()),
                      std::uint64_t{where.line()} << 32 | where.column() << 8 | static_cast<unsigned char>(region[0])};
  const auto [found, is_new] = known_sites.try_emplace(key, 0);
  if (is_new) found->second = number_of(kind, region, order, on_failure, where);
  return all_sites[found->second];
}

bool is_of(const Weakened& each, const Site& site) {
  return each.line == site.line && each.column == site.column && each.file == site.file &&
         (each.region.empty() || each.region == site.region);
}

}  // namespace

void come_by(const char* kind, const void* at, const char* step, Order& order, Order& on_failure, const Where& where) {
  Site& site = site_of(kind, at, order, on_failure, where);
  if (std::find(site.steps.begin(), site.steps.end(), step) == site.steps.end()) site.steps.push_back(step);
  for (const Weakened& each : weakened) {
    if (!is_of(each, site)) continue;
    if (each.part == "failure") {
      on_failure = {};
      continue;
    }
    order.consistent = false;
    if (each.part == "acquire") order.acquire = false;
    if (each.part == "release") order.release = false;
  }
}

}  // namespace model

const std::vector<Site>& sites() { return model::all_sites; }

void regions(const std::function<const char*(const void*)>& of) { model::region_of = of; }

void weaken(const std::string& file, unsigned line, unsigned column, const std::string& region,
            const std::string& part) {
  model::weakened.push_back({file, region, part, line, column});
}

}  // namespace weak
