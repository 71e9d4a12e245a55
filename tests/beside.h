// Where what a test needs at run time lies.
#pragma once

#include <filesystem>
#include <string>

// The path of a file in the folder of the running program. Not a definition of the build: what names no folder is
// compiled once for all builds.
inline std::string BesideThisProgram(const char* file) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / file;
}
