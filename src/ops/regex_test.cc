// RegexFullMatch and the expressions behind it; expected values by RE2's description of its syntax.
#include "ops/common/regex.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::HasSubstr;

struct Case {
  const char* pattern;
  std::vector<std::string> yes, no;
};

TEST(Regex, MatchesWholeTexts) {
  const std::vector<Case> cases = {
      {"", {""}, {"a"}},
      {"abc", {"abc"}, {"ab", "abcd", "xabc", ""}},
      {"a|bc|", {"a", "bc", ""}, {"ab", "abc"}},
      {"a*b+c?", {"b", "aab", "abbc"}, {"a", "ac", "abcc"}},
      {"a{2}", {"aa"}, {"a", "aaa"}},
      {"a{2,}", {"aa", "aaaa"}, {"a"}},
      {"a{1,3}?b", {"ab", "aaab"}, {"b", "aaaab"}},
      {"a{,2}", {"a{,2}"}, {"a"}},
      {"x{}", {"x{}"}, {"x"}},
      {"(ab|c)*d", {"d", "abcabd"}, {"abc", "ad"}},
      {"(?:a|b){2}", {"ab", "ba"}, {"a", "abc"}},
      {"(?P<first>a)(?<second>b)", {"ab"}, {"a"}},
      {"(a*)*", {"", "aaa"}, {"b"}},
      {"(|a)+", {"", "aa"}, {"b"}},
      {"a.c", {"abc", "aéc", "a c"}, {"ac", "a\nc"}},
      {"(?s)a.c", {"a\nc"}, {"ac"}},
      {"^abc$", {"abc"}, {"abc\n"}},
      {"a^b", {}, {"ab"}},
      {"(?m)a$\n^b", {"a\nb"}, {"ab"}},
      {"\\Aa\\z", {"a"}, {"aa"}},
      {"\\bfoo\\b.*", {"foo", "foo bar"}, {"foobar"}},
      {"a\\Bb", {"ab"}, {"a b"}},
      {"\\d+\\.\\d\\s\\w\\D\\S\\W", {"12.5 _ax!"}, {"1.5 _1x!", "12.5\v_ax!"}},
      {"[abc]", {"a", "c"}, {"d", "ab", ""}},
      {"[^abc\\d]+", {"xyz\n", "é"}, {"xa", "5"}},
      {"[a-c-]+", {"a-b"}, {"d"}},
      {"[]a]+", {"]a]"}, {"b"}},
      {"[^]a]", {"b"}, {"]", "a"}},
      {"[\\]\\-\\^]+", {"]-^"}, {"\\"}},
      {"[[:alpha:][:^word:]]+", {"aZ !"}, {"a1", "_"}},
      {"[а-я]+", {"привет"}, {"Привет"}},
      {"\\x41\\x{263a}\\101\\n\\t\\.", {"A☺A\n\t."}, {"A"}},
      {"\\_\\ \\-", {"_ -"}, {"_"}},
      {"\\Qa.b*\\Ec*", {"a.b*", "a.b*cc"}, {"axb", "a.bc"}},
      {"(?i)straße [k-m]", {"STRAßE L", "Straẞe k"}, {"strasse k", "straße n"}},
      {"(?i:a)b", {"Ab", "ab"}, {"AB"}},
      {"a(?i)b|c", {"ab", "aB", "C"}, {"AB"}},
      {"(a(?i)b)c", {"aBc"}, {"aBC"}},
      {"(?i-i:a)(?U)b*", {"abb"}, {"Ab"}},
      {"日本.", {"日本語"}, {"日本"}},
      {"www\\.[\\w.-]+\\.\\bcom\\b", {"www.google.com"}, {"www.bbc.co.uk"}},
      {"(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", {"account@gmail.com"}, {"account@hotmail.com"}},
  };
  for (const Case& c : cases) {
    const Result<Regex> regex = Regex::Compile(c.pattern);
    ASSERT_TRUE(regex.ok()) << regex.status().message();
    for (const std::string& text : c.yes) EXPECT_TRUE(regex->MatchesAll(text)) << c.pattern << " and " << text;
    for (const std::string& text : c.no) EXPECT_FALSE(regex->MatchesAll(text)) << c.pattern << " and " << text;
  }
}

TEST(Regex, BytesThatAreNoTextMatchNothing) {
  const Result<Regex> regex = Regex::Compile("(?s).*");
  ASSERT_TRUE(regex.ok());
  EXPECT_TRUE(regex->MatchesAll(std::string("a\0b", 3)));
  EXPECT_FALSE(regex->MatchesAll("\xFF"));
  EXPECT_FALSE(regex->MatchesAll("a\xC3"));
}

TEST(Regex, RefusesWhatIsNoExpression) {
  for (const char* pattern : {"(",          ")",
                              "a)",         "(a",
                              "[a",         "[",
                              "[]",         "[^]",
                              "[b-a]",      "[a-\\d]",
                              "[[:foo:]]",  "*",
                              "+a",         "a|*",
                              "(?",         "(?a",
                              "(?i",        "(?-",
                              "(?i-)",      "(?=a)",
                              "(?!a)",      "(?<=a)",
                              "(?P<a",      "(?P<>a)",
                              "(?P<a-b>c)", "(?P<n>a)(?P<n>b)",
                              "(?P=n)",     "a**",
                              "a{1}{2}",    "a+*",
                              "a{1001}",    "a{3,2}",
                              "a{0,1001}",  "\\",
                              "\\8",        "\\1",
                              "\\e",        "\\Z",
                              "\\x",        "\\x4",
                              "\\x{}",      "\\x{110000}",
                              "\\x{zz}",    "[\\b]",
                              "\xFF"}) {
    const Status status = Regex::Compile(pattern).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << pattern << ": " << status.message();
  }
  for (const char* pattern : {"\\pN", "[\\p{Greek}]", "\\PL", "\\C"}) {
    EXPECT_EQ(Regex::Compile(pattern).status().code(), StatusCode::kUnsupported) << pattern;
  }
}

// Nested repetitions multiply, groups nest, and both are bounded; empty ones repeat nothing.
TEST(Regex, StaysSmall) {
  EXPECT_EQ(Regex::Compile("((a{1000}){1000}){1000}").status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Regex::Compile("((a{0,1000}){0,1000}){0,1000}").status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Regex::Compile(std::string(100'000, '(')).status().code(), StatusCode::kResourceExhausted);
  std::string empty;
  for (int i = 0; i < 100; ++i) empty = "(" + empty + "){1000}";
  EXPECT_TRUE(Regex::Compile(empty).ok());
  const Result<Regex> slow_elsewhere = Regex::Compile("(a*)*(a*)*(a|a)*b");
  ASSERT_TRUE(slow_elsewhere.ok());
  EXPECT_FALSE(slow_elsewhere->MatchesAll(std::string(20'000, 'a')));
}

TEST(RegexFullMatch, ElementByElement) {
  OpTester t("RegexFullMatch");
  t.Input(StringTensor{Shape{2, 2}, {"a1", "b2", "a", "a22"}}).Attr("pattern", std::string("a\\d+"));
  EXPECT_EQ(t.Values<bool>(), (std::vector<bool>{true, false, false, true}));
  EXPECT_THAT(OpTester("RegexFullMatch").Input(StringTensor{Shape{0}, {}}).Attr("pattern", std::string("a(")).Error(),
              HasSubstr("pattern 'a(' is not valid at byte 2: ) is missing"));
  EXPECT_THAT(OpTester("RegexFullMatch").Input(StringTensor{Shape{0}, {}}).Error(), HasSubstr("'pattern' is missing"));
}

}  // namespace
}  // namespace quern
