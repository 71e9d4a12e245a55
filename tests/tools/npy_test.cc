// .npy files: written and read back, and files that NumPy would write.
#include "npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "command.h"

namespace quern_tool {
namespace {

using quern::Value;
using testing::ElementsAre;

std::string Path(const std::string& name) { return testing::TempDir() + "/quern_npy_test_" + name; }

template <typename T>
void RoundTrip(std::vector<T> elements) {
  const Value v = Value::Tensor<T>({1, static_cast<std::int64_t>(elements.size())}, elements);
  WriteNpy(Path("x.npy"), v);
  const Value back = ReadNpy(Path("x.npy"));
  ASSERT_EQ(back.dtype(), v.dtype());
  ASSERT_EQ(back.shape(), v.shape());
  EXPECT_EQ(std::memcmp(back.raw_data(), v.raw_data(), v.bytes()), 0) << quern_dtype_name(v.dtype());
}

TEST(Npy, RoundTrips) {
  RoundTrip<float>({1, -2.5f, 3e38f});
  RoundTrip<double>({1e300});
  RoundTrip<std::int8_t>({-128, 127});
  RoundTrip<std::uint8_t>({255});
  RoundTrip<std::int16_t>({-300});
  RoundTrip<std::uint16_t>({65535});
  RoundTrip<std::int32_t>({-70000});
  RoundTrip<std::uint32_t>({4000000000u});
  RoundTrip<std::int64_t>({INT64_MIN, INT64_MAX});
  RoundTrip<std::uint64_t>({UINT64_MAX});
  RoundTrip<bool>({true, false});
  const Value scalar = Value::Tensor<float>({}, {4});
  WriteNpy(Path("s.npy"), scalar);
  EXPECT_TRUE(ReadNpy(Path("s.npy")).shape().empty());
  const Value none = Value::Tensor<float>({0, 3}, {});
  WriteNpy(Path("n.npy"), none);
  EXPECT_THAT(ReadNpy(Path("n.npy")).shape(), ElementsAre(0, 3));
}

TEST(Npy, HoldsStrings) {
  const Value v = Value::Strings({2}, {"gr\xc3\xbc\xc3\x9f dich", "\xf0\x9f\x99\x82"});
  WriteNpy(Path("t.npy"), v);
  const Value back = ReadNpy(Path("t.npy"));
  EXPECT_EQ(back.string(0), v.string(0));
  EXPECT_EQ(back.string(1), v.string(1));
}

std::string File(std::string header, const std::string& body) {
  header.append(117 - header.size(), ' ');
  header += '\n';
  std::string file = "\x93NUMPY";
  file += {1, 0, static_cast<char>(header.size()), 0};
  return file + header + body;
}

TEST(Npy, ReadsFortranOrder) {
  const float columns[6] = {0, 3, 1, 4, 2, 5};
  WriteFile(Path("f.npy"), File("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }",
                                std::string(reinterpret_cast<const char*>(columns), sizeof columns)));
  const Value v = ReadNpy(Path("f.npy"));
  EXPECT_EQ(std::vector<float>(v.data<float>(), v.data<float>() + 6), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(Npy, RefusesBrokenFiles) {
  const std::string good = File("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", std::string(8, '\0'));
  for (const std::string& bytes :
       {std::string("not numpy at all"), good.substr(0, good.size() - 1), good.substr(0, 40),
        File("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", std::string(8, '\0')),
        File("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }", ""),
        File("{'descr': '<f4', 'fortran_order': False, }", std::string(8, '\0'))}) {
    WriteFile(Path("b.npy"), bytes);
    EXPECT_THROW(ReadNpy(Path("b.npy")), Failure);
  }
  EXPECT_THROW(ReadNpy(Path("missing.npy")), Failure);
}

}  // namespace
}  // namespace quern_tool
