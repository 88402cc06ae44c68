# The CUDA backend, src/backend/cuda: compiled when nvcc is there, left out when not.
#
# KVASIR_CUDA_COMPILED says afterwards which it is. The run-time library is linked statically and cuBLASLt is opened at
# run time, so that one binary runs on machines with a driver, with or without CUDA, and on machines with neither.
set(KVASIR_CUDA AUTO CACHE STRING "The CUDA backend: AUTO (when nvcc 13 is found), ON or OFF")
set_property(CACHE KVASIR_CUDA PROPERTY STRINGS AUTO ON OFF)

# Of sm_90a there are Hopper's own kernels; compute_80 is compiled by the driver for devices that are newer than all others.
set(KVASIR_CUDA_TARGETS "sm_80;sm_90a;compute_80" CACHE STRING "What the CUDA backend is compiled for")

set(KVASIR_CUDA_COMPILED OFF)
set(without_cuda "")  # why
if(NOT KVASIR_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "KVASIR_CUDA is AUTO, ON or OFF, not '${KVASIR_CUDA}'")
elseif(KVASIR_CUDA STREQUAL "OFF")
  set(without_cuda "KVASIR_CUDA is OFF")
elseif(KVASIR_SANITIZE OR KVASIR_FUZZ)
  set(without_cuda "sanitizers do not see into it")
elseif(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(without_cuda "it is compiled with g++ as the host's compiler")
else()
  # Where the environment or the cache names a compiler CMake takes that one; else the one in PATH or where CUDA installs itself.
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(KVASIR_NVCC nvcc HINTS /usr/local/cuda/bin /opt/cuda/bin)
    mark_as_advanced(KVASIR_NVCC)
    if(KVASIR_NVCC)
      set(CMAKE_CUDA_COMPILER ${KVASIR_NVCC})
    endif()
  endif()
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(without_cuda "nvcc was not found")
  else()
    set(CMAKE_CUDA_ARCHITECTURES OFF)  # named below
    set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # linked below, so that an installed package has it too
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13)
      set(without_cuda "nvcc is ${CMAKE_CUDA_COMPILER_VERSION}, and 13 or newer is needed")
    else()
      set(KVASIR_CUDA_COMPILED ON)
    endif()
  endif()
endif()

if(KVASIR_CUDA_COMPILED)
  message(STATUS "The CUDA backend is compiled, with nvcc ${CMAKE_CUDA_COMPILER_VERSION}")
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # CMake 3.25 does not know nvcc's
  set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
elseif(KVASIR_CUDA STREQUAL "ON")
  message(FATAL_ERROR "KVASIR_CUDA is ON, but there can be no CUDA backend: ${without_cuda}. "
    "Install CUDA 13 and put nvcc in PATH (or set CUDACXX), or build with KVASIR_CUDA=AUTO or OFF")
else()
  message(STATUS "No CUDA backend: ${without_cuda}")
endif()

# kvasir_cuda_sources(TARGET FOLDER): the .cu and .cpp files of the folder and of those inside it, or its without_cuda.cpp in their place.
# Its .cpp files alone see CUDA's headers without nvcc.
function(kvasir_cuda_sources target folder)
  if(NOT KVASIR_CUDA_COMPILED)
    target_sources(${target} PRIVATE ${folder}/without_cuda.cpp)
    return()
  endif()
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${folder}/*.cu)
  file(GLOB_RECURSE plain CONFIGURE_DEPENDS ${folder}/*.cpp)
  list(FILTER plain EXCLUDE REGEX "/without_cuda\\.cpp$")
  target_sources(${target} PRIVATE ${kernels} ${plain})
  foreach(directory ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
    set_property(SOURCE ${plain} APPEND PROPERTY COMPILE_OPTIONS "-isystem${directory}")
  endforeach()
  set(targets "")
  foreach(code ${KVASIR_CUDA_TARGETS})
    string(REGEX REPLACE "^sm_" "compute_" arch ${code})
    string(APPEND targets " -gencode arch=${arch},code=${code}")
  endforeach()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:\
${targets} --expt-relaxed-constexpr --threads 2 \
-Werror all-warnings -Xcompiler -Wall,-Wextra,-Wshadow,-Wnon-virtual-dtor,-Woverloaded-virtual,-Werror \
-fmad=false -Xcompiler -ffp-contract=off>")  # fused where the code says fmaf, as everywhere: see kvasir_flags
  # fmt 9 takes constexpr away from half of its functions under nvcc, which does not compile as C++20.
  target_compile_definitions(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
  find_library(KVASIR_CUDART cudart_static PATHS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} REQUIRED NO_DEFAULT_PATH)
  mark_as_advanced(KVASIR_CUDART)
  target_link_libraries(${target} PUBLIC ${KVASIR_CUDART} pthread rt dl)
endfunction()
