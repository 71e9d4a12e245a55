// The `reference` provider: plain evaluation of every operator that Quern knows; takes what nobody else does.
#pragma once

#include <memory>

#include "provider/host.h"

namespace quern {

std::shared_ptr<Provider> MakeReferenceProvider();

}  // namespace quern
