// CPUs that can be asked for by name, whatever the host is.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/cpu.h"

namespace quern {

// Nothing for a name that is not in the table; "native" and "generic" are not.
std::optional<CpuInfo> NamedCpu(std::string_view name);

// In the order of the table.
std::vector<std::string_view> NamedCpuNames();

}  // namespace quern
