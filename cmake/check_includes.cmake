# cmake -D FOLDER=... -D STAMP=... -P check_includes.cmake: fails where a file of FOLDER includes by a path with `..`,
# else writes STAMP.
file(GLOB_RECURSE files ${FOLDER}/*.cc ${FOLDER}/*.h ${FOLDER}/*.inc)
set(found "")
foreach(file IN LISTS files)
  file(STRINGS ${file} lines REGEX "^[ \t]*#[ \t]*include[ \t]*[\"<]([^\">]*/)?\\.\\./")
  foreach(line IN LISTS lines)
    string(APPEND found "\n${file}: ${line}")
  endforeach()
endforeach()
if(found)
  message(FATAL_ERROR "includes are written from src/, as \"folder/file.h\":${found}")
endif()
file(TOUCH ${STAMP})
