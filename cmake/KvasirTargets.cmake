# How every target of the project is compiled, and the three ways to declare one.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# -O2 everywhere; the kernels ask for -O3 themselves, where unrolling pays.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(kvasir_flags INTERFACE)
set(flags
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wconversion -Wno-sign-conversion
  -Werror
  # A product and a sum are fused where the code says so, and nowhere else: bits must not depend on the compiler's mood.
  -ffp-contract=off)
target_compile_options(kvasir_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(kvasir_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)  # false alarms in std::string (GCC bug 105651)
endif()
if(KVASIR_SANITIZE)
  add_compile_options(-fsanitize=${KVASIR_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KVASIR_SANITIZE})
  # GCC takes the sanitizers' own code for uninitialized reads; the sanitizers see the real ones.
  target_compile_options(kvasir_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

# kvasir_coroutines(FILE…): sources of this folder with coroutines in them. Clang 14 cannot compile these with the check of
# calls through pointers to functions (LLVM issue 49689: "Cannot represent a difference across sections").
function(kvasir_coroutines)
  if(KVASIR_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -fno-sanitize=function)
  endif()
endfunction()

# Most of a build is the reading of headers. Where they are large, sources of a folder are compiled several at a time,
# which takes a third off a whole build. They share one scope then: a name that a file has to itself must be
# the only one of its folder.
option(KVASIR_UNITY "Compile several sources of a folder at a time" ON)
function(kvasir_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${KVASIR_UNITY} UNITY_BUILD_BATCH_SIZE 7)
endfunction()

# kvasir_library(NAME [UNITY] SOURCES a.cpp … DEPS base … LINK sodium …): one folder of src/.
# LINK names system libraries by their plain name, so that an installed package finds them without a helper.
function(kvasir_library name)
  cmake_parse_arguments(ARG "UNITY" "" "SOURCES;DEPS;LINK" ${ARGN})
  if(ARG_SOURCES)
    add_library(kvasir_${name} STATIC ${ARG_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(kvasir_${name} PRIVATE $<BUILD_INTERFACE:kvasir_flags>)
    if(ARG_UNITY)
      kvasir_unity(kvasir_${name})
    endif()
  else()
    add_library(kvasir_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  set_target_properties(kvasir_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(kvasir_${name} ${scope}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:include>)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(kvasir_${name} ${scope} kvasir_${dep})
  endforeach()
  kvasir_link_names(link ${ARG_LINK})
  target_link_libraries(kvasir_${name} ${scope} ${link})
  set_property(GLOBAL APPEND PROPERTY KVASIR_LIBRARIES kvasir_${name})
endfunction()

# kvasir_test(NAME [UNITY] SOURCES a_test.cpp … DEPS kv …): a GoogleTest binary; each TEST is a CTest test of its own.
function(kvasir_test name)
  cmake_parse_arguments(ARG "UNITY;GROUPED" "TIMEOUT" "SOURCES;DEPS;LINK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  if(KVASIR_SANITIZE)  # the longest tests take twenty times as long
    math(EXPR ARG_TIMEOUT "3 * ${ARG_TIMEOUT}")
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  if(ARG_UNITY)
    kvasir_unity(test_${name})
  endif()
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(test_${name} PRIVATE KVASIR_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  foreach(dep ${ARG_DEPS})
    target_link_libraries(test_${name} PRIVATE kvasir_${dep})
  endforeach()
  kvasir_link_names(link ${ARG_LINK})
  target_link_libraries(test_${name} PRIVATE kvasir_flags ${link} GTest::gtest GTest::gtest_main)
  target_compile_options(test_${name} PRIVATE $<$<CONFIG:Release>:-O1>)  # a test's own code is compiled more than it runs
  if(ARG_GROUPED)  # one process for all parameters of a test
    set(groups ${CMAKE_CURRENT_BINARY_DIR}/test_${name}_groups.cmake)
    if(NOT EXISTS ${groups})  # CTest may be asked before it is built
      file(WRITE ${groups} "")
    endif()
    set(part 0)
    if(KVASIR_SANITIZE)  # all of the laws would take half a day, and what sanitizers look for is in any of them
      set(part 13)
    endif()
    add_custom_command(TARGET test_${name} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:test_${name}> -DPREFIX=${name}. -DPART=${part} -DOUT=${groups}
              "-DPROPERTIES=TIMEOUT ${ARG_TIMEOUT} LABELS ${name}" -P ${PROJECT_SOURCE_DIR}/cmake/GroupTests.cmake
      VERBATIM)
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${groups})
  else()
    gtest_discover_tests(test_${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
      PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS ${name})
  endif()
endfunction()
