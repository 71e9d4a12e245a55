// Tables for people: columns as wide as their content, the last one as long as it is.
#pragma once

#include <string>
#include <vector>

namespace quern_tool {

class Table {
 public:
  // A heading that starts with '>' is a column of numbers, aligned to the right.
  explicit Table(std::vector<std::string> headings);
  void Add(std::vector<std::string> row);
  // On standard output; nothing when there is no row.
  void Print(const char* indent = "  ") const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace quern_tool
