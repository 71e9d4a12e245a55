// Einsum on random equations against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

struct Extents {
  std::map<char, int64_t> of;
  // Now and then 1, where the other operand's extent counts.
  Shape ShapeOf(const std::string& term, bool may_broadcast) {
    Shape s;
    for (const char ch : term) s.push_back(may_broadcast && Draw(0, 9) == 0 ? 1 : of[ch]);
    return s;
  }
};

// How many products a result is the sum of: the extents of the letters that the output lacks. An ellipsis, where there
// is one, comes first.
int64_t TermsOfSum(const std::string& equation, const std::vector<Shape>& shapes) {
  const size_t arrow = equation.find("->");
  const std::string left = equation.substr(0, arrow);
  std::map<char, int64_t> extents;
  size_t begin = 0;
  for (const Shape& s : shapes) {
    const size_t end = std::min(left.find(',', begin), left.size());
    int d = s.rank();
    for (size_t i = end; i-- > begin;) {
      if (!std::isalpha(static_cast<unsigned char>(left[i]))) continue;
      --d;
      extents[left[i]] = std::max(extents[left[i]], s[d]);
    }
    begin = end + 1;
  }
  int64_t terms = 1;
  for (const auto& [letter, extent] : extents) {
    const bool kept = arrow == std::string::npos ? std::count(left.begin(), left.end(), letter) == 1
                                                 : equation.find(letter, arrow) != std::string::npos;
    if (!kept) terms *= std::max<int64_t>(1, extent);
  }
  return terms;
}

Case Product(const std::string& equation, const std::vector<Shape>& shapes) {
  Case c{.op = "Einsum", .opset = 12};
  for (const Shape& s : shapes) c.In(DrawTensor(DType::kF32, s, 1));
  c.Attr("equation", equation);
  c.absolute = ErrorOfSum(TermsOfSum(equation, shapes), 1);
  return c;
}

TEST_F(CpuOps, EinsumOfRandomLetters) {
  for (int i = 0; i < 20 * kRounds; ++i) {
    Extents extents;
    const std::string alphabet = "abcdeXY";
    for (const char ch : alphabet) extents.of[ch] = Draw(0, 30) == 0 ? 0 : Draw(1, 5);
    std::vector<std::string> terms;
    std::string all;
    for (int64_t n = Draw(1, 4); n > 0; --n) {
      std::string term;
      for (int64_t r = Draw(0, 5); r > 0; --r) {
        // A letter may stand twice: the diagonal.
        const char ch = alphabet[static_cast<size_t>(Draw(0, 6))];
        if (!(term.find(ch) != std::string::npos) || Draw(0, 5) == 0) term += ch;
      }
      terms.push_back(term);
      all += term;
    }
    std::string output;
    std::shuffle(all.begin(), all.end(), Random());
    for (const char ch : all) {
      if (!(output.find(ch) != std::string::npos) && Draw(0, 2) != 0) output += ch;
    }
    std::string equation = terms[0];
    for (size_t t = 1; t < terms.size(); ++t) equation += "," + terms[t];
    if (Draw(0, 5) != 0) equation += " -> " + output;
    std::vector<Shape> shapes;
    for (const std::string& t : terms) shapes.push_back(extents.ShapeOf(t, terms.size() > 1));
    ASSERT_NO_FATAL_FAILURE(Check(Product(equation, shapes)));
  }
}

TEST_F(CpuOps, EinsumOfCommonForms) {
  const int64_t b = 2, h = 3, i = 70, j = 65, d = 33;
  for (const auto& [equation, x, y] :
       std::vector<std::tuple<std::string, Shape, Shape>>{{"bhid,bhjd->bhij", {b, h, i, d}, {b, h, j, d}},
                                                          {"bihd,bjhd->bhij", {b, i, h, d}, {b, j, h, d}},
                                                          {"bhij,bhjd->bihd", {b, h, i, j}, {b, h, j, d}},
                                                          {"bij,jhd->bihd", {b, i, j}, {j, h, d}},
                                                          {"bihd,hdj->bij", {b, i, h, d}, {h, d, j}},
                                                          {"...ij,...jk->...ik", {b, 1, i, j}, {h, j, d}},
                                                          {"...i,...i->...", {b, h, i}, {h, i}},
                                                          {"i,j->ij", {i}, {j}},
                                                          {"ij,kl->ijkl", {4, 5}, {6, 7}},
                                                          {"ij,kl->", {6, 7}, {7, 5}},
                                                          {"bdhw,bd->bdhw", {b, d, 4, 5}, {b, d}},
                                                          {"xy,yx", {i, j}, {j, i}}}) {
    ASSERT_NO_FATAL_FAILURE(Check(Product(equation, {x, y})));
  }
  const Shape chain[] = {{9, 8}, {8, 7}, {7, 9}};
  for (const char* equation : {"ij,jk,kl->il", "ij,jk,kl", "ij,jk,ki->", "ij,jk,kl->lj"}) {
    ASSERT_NO_FATAL_FAILURE(Check(Product(equation, {chain[0], chain[1], chain[2]})));
  }
  for (const auto& [equation, x] : std::vector<std::pair<std::string, Shape>>{{"ij->ji", {i, j}},
                                                                              {"ii->i", {i, i}},
                                                                              {"ii", {i, i}},
                                                                              {"...ij->...ji", {b, i, j}},
                                                                              {"abc->ca", {i, j, 4}},
                                                                              {"abc->b", {i, j, 4}}}) {
    ASSERT_NO_FATAL_FAILURE(Check(Product(equation, {x})));
  }
}

}  // namespace
}  // namespace quern::cpu
