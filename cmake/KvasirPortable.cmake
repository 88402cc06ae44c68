# KVASIR_PORTABLE: programs that need nothing of a machine but its C library, and run on any x86-64 Linux with one as new
# as that of the machine that built them.
#
# Debian's packages have static libraries of all we link but fmt, which is compiled here from its headers, and Highway, of
# which only builds with sanitizers need more than headers. ICU's data is 30 MB, nearly all of it about languages
# and places: cut_icu_data.py keeps Unicode's normal forms and graphemes.
option(KVASIR_PORTABLE "Link all libraries but the C library statically" OFF)

# kvasir_link_names(OUT NAME…): what to link for system libraries with these names.
function(kvasir_link_names out)
  set(names ${ARGN})
  if(KVASIR_PORTABLE)
    list(REMOVE_ITEM names hwy)
    list(TRANSFORM names REPLACE "^fmt$" kvasir_fmt)
    list(TRANSFORM names REPLACE "^(sodium|xxhash|pcre2-8)$" "-l:lib\\1.a")
    list(TRANSFORM names REPLACE "^icuuc$" "-l:libicuuc.a;kvasir_icu_data")
    list(TRANSFORM names REPLACE "^edit$" "-l:libedit.a;-l:libtinfo.a;-l:libbsd.a;-l:libmd.a")
  endif()
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

if(KVASIR_PORTABLE)
  add_link_options(-static-libstdc++ -static-libgcc -Wl,--gc-sections -s)
  add_library(kvasir_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/portable_fmt.cpp)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  find_library(KVASIR_ICU_DATA libicudata.a REQUIRED)
  mark_as_advanced(KVASIR_ICU_DATA)
  set(icu_data ${CMAKE_BINARY_DIR}/icu_data.s)
  add_custom_command(OUTPUT ${icu_data}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/cut_icu_data.py ${KVASIR_ICU_DATA} ${icu_data}
    DEPENDS ${CMAKE_CURRENT_LIST_DIR}/cut_icu_data.py VERBATIM)
  enable_language(ASM)
  add_library(kvasir_icu_data STATIC ${icu_data})
  set_source_files_properties(${icu_data} PROPERTIES LANGUAGE ASM)
endif()
