# The install tree: headers, libquern.so, libquern.a, libquern_ukernel.a, the command, and find_package(quern).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(TARGET quern_shared)
  install(DIRECTORY include/quern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
  install(TARGETS quern_shared EXPORT quern_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${PROJECT_BINARY_DIR}/src/api/libquern.a $<TARGET_FILE:quern_ukernel>
          DESTINATION ${CMAKE_INSTALL_LIBDIR})
  set(_package ${CMAKE_INSTALL_LIBDIR}/cmake/quern)
  install(EXPORT quern_targets NAMESPACE quern:: FILE quern-targets.cmake DESTINATION ${_package})
  configure_package_config_file(cmake/quern-config.cmake.in ${PROJECT_BINARY_DIR}/quern-config.cmake
                                INSTALL_DESTINATION ${_package}
                                PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/quern-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/quern-config.cmake ${PROJECT_BINARY_DIR}/quern-config-version.cmake
          DESTINATION ${_package})
endif()
