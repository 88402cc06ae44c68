# Installs the package into a folder of its own, builds examples/ against it with find_package(kvasir), and runs them.
set(prefix ${BUILD}/installed)
set(examples ${BUILD}/examples)
file(REMOVE_RECURSE ${prefix} ${examples})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
set(flags "")
if(SANITIZE)
  set(flags -fsanitize=${SANITIZE})
endif()
run(${CMAKE_COMMAND} -S ${SOURCE}/examples -B ${examples} -G Ninja -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${flags})
run(${CMAKE_COMMAND} --build ${examples})

run(${examples}/generate ${SOURCE}/models/tales "Once upon a time")
if(NOT output MATCHES "there lived a princess called Ivy")
  message(FATAL_ERROR "examples/generate printed:\n${output}")
endif()
run(${examples}/shared_prefix ${SOURCE}/models/tales)
if(NOT output MATCHES "reused")
  message(FATAL_ERROR "examples/shared_prefix printed:\n${output}")
endif()
run(${prefix}/bin/kvasir run -p "Once upon a time" -n 5 --temp 0)  # finds the installed model

foreach(spoken share/man/man1/kvasir.1 share/bash-completion/completions/kvasir share/zsh/site-functions/_kvasir
               share/fish/vendor_completions.d/kvasir.fish)
  file(READ ${prefix}/${spoken} text)
  if(NOT text MATCHES "max.?.?-queued")
    message(FATAL_ERROR "${spoken} does not know --max-queued:\n${text}")
  endif()
endforeach()
