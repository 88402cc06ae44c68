# What the server shows at /: web/ built by node into files, and these into a source. Without node and npm the source has
# one file, which says so.

option(KVASIR_PAGE "Build the server's page, where node and npm are there" ON)

# kvasir_page(VARIABLE): the path of the source that has the page's files.
function(kvasir_page variable)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/page_files.cpp)
  set(${variable} ${out} PARENT_SCOPE)
  # Clang counts the bytes of a string; GCC does not know the warning.
  set_source_files_properties(${out} PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings SKIP_UNITY_BUILD_INCLUSION ON)
  find_program(KVASIR_NODE node)
  find_program(KVASIR_NPM npm)
  set(web ${PROJECT_SOURCE_DIR}/web)
  if(KVASIR_PAGE AND KVASIR_NODE AND KVASIR_NPM)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${web}/src/* ${web}/index.html ${web}/*.json ${web}/*.ts ${web}/*.mjs ${web}/*.sh)
    add_custom_command(OUTPUT ${out}
      COMMAND sh ${web}/build.sh ${web} ${CMAKE_BINARY_DIR}/web ${out}
      DEPENDS ${sources} COMMENT "Building the page" VERBATIM)
  else()
    file(COPY_FILE ${web}/no_page.cpp ${out} ONLY_IF_DIFFERENT)
  endif()
endfunction()
