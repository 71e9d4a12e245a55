// The document about an operator of the drivers:
//   op, algorithm, cpu, packed_bytes, why, kernel     the last two where the algorithm says more than its products
//   products [{role, m, n, k, lhs, rhs, precision, kernel, layout, rejected [{name, reason, cycles}]}]
#include "session/facts.h"
#include "session/facts_json.h"

namespace quern {

std::string OperatorReport(const OperatorChoice& choice) {
  Json doc = NewDocument("operator");
  doc["op"] = choice.op;
  doc["algorithm"] = choice.algorithm;
  doc["cpu"] = choice.cpu;
  doc["packed_bytes"] = choice.packed_bytes;
  if (!choice.why.empty()) doc["why"] = choice.why;
  if (!choice.kernel.empty()) doc["kernel"] = choice.kernel;
  doc["products"] = Json::array();
  for (const OperatorChoice::Product& p : choice.products) {
    Json product = {{"role", p.role},
                    {"m", p.m},
                    {"n", p.problem.n},
                    {"k", p.problem.k * p.problem.segments},
                    {"lhs", FormatName(p.problem.lhs)},
                    {"rhs", FormatName(p.problem.rhs)},
                    {"precision", PrecisionName(p.problem.precision)},
                    {"kernel", p.row ? ukernel::Name(*p.row).text : ""},
                    {"layout", kernels::LayoutName(p.layout.layout)},
                    {"rejected", Json::array()}};
    kernels::SelectionReport report;
    kernels::ExplainRow(p.problem, choice.options, p.layout, p.m, &report);
    for (const kernels::RowCandidate& c : report.rows) {
      if (c.row == p.row) continue;
      Json rejected = {{"name", c.name}, {"reason", c.reason}};
      if (c.cycles > 0) rejected["cycles"] = c.cycles;
      product["rejected"].push_back(std::move(rejected));
    }
    doc["products"].push_back(std::move(product));
  }
  return Dump(doc);
}

}  // namespace quern
