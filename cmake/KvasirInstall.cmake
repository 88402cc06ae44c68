# cmake --install build: the program, the library, its public headers, the shipped models, and a package that
# find_package(kvasir) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY KVASIR_LIBRARIES)
list(REMOVE_ITEM libraries kvasir_cli kvasir_tune kvasir_eval kvasir_plan kvasir_server kvasir_grammar)
add_library(kvasir_kvasir INTERFACE)
set_target_properties(kvasir_kvasir PROPERTIES EXPORT_NAME kvasir)
target_link_libraries(kvasir_kvasir INTERFACE kvasir_api)

if(KVASIR_PORTABLE)  # one file, to be copied
  return()
endif()
install(TARGETS kvasir DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${libraries} kvasir_kvasir EXPORT kvasir-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/kvasir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY models/tales models/tales-draft DESTINATION ${CMAKE_INSTALL_DATADIR}/kvasir/models)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kvasir)
install(EXPORT kvasir-targets NAMESPACE kvasir:: DESTINATION ${package_dir})
file(WRITE ${CMAKE_BINARY_DIR}/kvasir-config.cmake
"include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(\${CMAKE_CURRENT_LIST_DIR}/kvasir-targets.cmake)
")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/kvasir-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/kvasir-config.cmake ${CMAKE_BINARY_DIR}/kvasir-config-version.cmake DESTINATION ${package_dir})
