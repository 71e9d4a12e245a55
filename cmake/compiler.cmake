# The compilers where nobody names any (`pip install .`, plain `cmake -S .`): clang 19, else what there is. Debian's
# packages have versioned names only, which CMake does not look for.
if(NOT CMAKE_TOOLCHAIN_FILE AND NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  find_program(_quern_cxx NAMES clang++-19 c++ g++ clang++ g++-12 NO_CACHE)
  if(_quern_cxx)
    set(CMAKE_CXX_COMPILER ${_quern_cxx})
  endif()
endif()
if(NOT CMAKE_TOOLCHAIN_FILE AND NOT CMAKE_C_COMPILER AND NOT DEFINED ENV{CC})
  find_program(_quern_cc NAMES clang-19 cc gcc clang gcc-12 NO_CACHE)
  if(_quern_cc)
    set(CMAKE_C_COMPILER ${_quern_cc})
  endif()
endif()
