// The row of int8 products on SME and SME2, the same for every kind of left side. For kernel files only.
#pragma once

#include "ukernel/gemm/rows_i8_arm.h"

namespace quern::ukernel {
namespace {

// An outer product a cycle, four for two vectors of rows; entering streaming mode stalls the core.
constexpr ArmI8Rows<1> MakeSmeRows(Format lhs, float step_row, GemmRun run) {
  GemmKernel row =
      ArmI8Row(kIsa, lhs, kI8Sme, 2, 2,
               {.engine = Engine::kMatrix, .step_row = step_row, .row = 4, .tile = 60, .call = 800, .m_grain = 2}, run);
  row.mr_scale = row.nr_scale = VectorScale::kSme;
  row.whole_panel = true;
  row.lhs_forms = kLhsPacked;
  row.lhs_layout = I8SmePanels(lhs);
  return {{row}};
}

// Of 4-bit weights with a scale per channel, which a block transform makes int8.
constexpr ArmI8Rows<1> MakeSmeFours(float step_row, GemmRun run) {
  ArmI8Rows<1> made = MakeSmeRows(Format::kI8d, step_row, run);
  GemmKernel& row = made.rows[0];
  row.rhs = Format::kI4;
  row.layouts[0] = U4Channels(VectorScale::kSme, 2, 4);
  row.layouts[1] = {};
  return made;
}

}  // namespace
}  // namespace quern::ukernel
