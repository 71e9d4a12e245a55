#include "format/onnx/field_reader.h"

#include <sys/mman.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/onnx/proto_builder.h"

namespace quern::onnx {
namespace {

using onnx_test::Message;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Walks all fields, skipping them.
Status SkipAll(std::string_view bytes) {
  FieldReader r(bytes, bytes.data());
  while (r.Next()) r.Skip();
  return r.status();
}

TEST(FieldReader, ReadsEachKind) {
  const std::string m =
      Message().Number(1, -5).Text(2, "abc").Float(3, 1.5f).PackedNumbers(4, {1, 300}).Number(4, 7).bytes();
  FieldReader r(m, m.data());
  std::vector<uint64_t> list;
  int64_t number = 0;
  float f = 0;
  std::string text;
  while (r.Next()) {
    switch (r.field()) {
      case 1:
        number = r.Int64();
        break;
      case 2:
        text = r.Bytes();
        break;
      case 3:
        f = r.Float();
        break;
      case 4:
        r.Varints([&](uint64_t v) { list.push_back(v); });
        break;
      default:
        r.Skip();
    }
  }
  ASSERT_TRUE(r.status().ok()) << r.status().message();
  EXPECT_EQ(number, -5);
  EXPECT_EQ(text, "abc");
  EXPECT_EQ(f, 1.5f);
  EXPECT_THAT(list, ElementsAre(1u, 300u, 7u));
}

TEST(FieldReader, NamesTheByteOfAnError) {
  const std::string good = Message().Number(1, 1).Text(5, "0123456789").bytes();
  const Status s = SkipAll(std::string_view(good).substr(0, good.size() - 4));
  EXPECT_EQ(s.code(), StatusCode::kCorrupt);
  EXPECT_THAT(s.message(), HasSubstr("field 5: claims 10 bytes where 6 are left: truncated at byte 2"));
}

TEST(FieldReader, RefusesWhatProtozeroWouldCutTo32Bits) {
  // Length 2^32 + 1: as 32 bits it would be 1, and fit.
  EXPECT_THAT(SkipAll(std::string("\x0a\x81\x80\x80\x80\x10x", 7)).message(), HasSubstr("claims 4294967297 bytes"));
  // Key 2^32 + 8: as 32 bits it would be field 1.
  EXPECT_THAT(SkipAll(std::string("\x88\x80\x80\x80\x10\x01", 6)).message(), HasSubstr("invalid field number"));
}

TEST(FieldReader, RefusesFieldsOfFourGigabytes) {
  const size_t size = (size_t{1} << 32) + 4096;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no 4 GB of address space";
  std::memcpy(memory, "\x0a\x80\x80\x80\x80\x10", 6);  // field 1, 2^32 bytes, all there
  const Status s = SkipAll({static_cast<const char*>(memory), size});
  EXPECT_EQ(s.code(), StatusCode::kResourceExhausted) << s.message();
  EXPECT_THAT(s.message(), HasSubstr("external data"));
  munmap(memory, size);
}

TEST(FieldReader, RefusesMalformedFields) {
  EXPECT_THAT(SkipAll(std::string("\x0b", 1)).message(), HasSubstr("unknown wire type 3"));
  EXPECT_THAT(SkipAll(std::string("\x00", 1)).message(), HasSubstr("invalid field number"));
  EXPECT_THAT(SkipAll(std::string("\x08", 1)).message(), HasSubstr("truncated at byte 0"));
  EXPECT_THAT(SkipAll(std::string("\x0d\x01", 2)).message(), HasSubstr("truncated"));
  EXPECT_THAT(SkipAll(std::string(11, '\xff')).message(), HasSubstr("more than 10 bytes"));
  const std::string m = Message().Text(1, "ab").bytes();
  FieldReader r(m, m.data());
  ASSERT_TRUE(r.Next());
  EXPECT_EQ(r.Int64(), 0);
  EXPECT_THAT(r.status().message(), HasSubstr("has wire type 2, expected 0"));
  EXPECT_FALSE(r.Next());
}

TEST(FieldReader, QuotedIsSafeToPrint) {
  EXPECT_EQ(Quoted("a\nb"), "'a?b'");
  EXPECT_EQ(Quoted(std::string(200, 'x')).size(), 105u);
}

}  // namespace
}  // namespace quern::onnx
