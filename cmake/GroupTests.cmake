# cmake -DPROGRAM=test_laws -DPREFIX=laws. -DPROPERTIES="TIMEOUT 600 LABELS laws" -DOUT=FILE -P GroupTests.cmake
#
# Writes a test for CTest for every TEST of a GoogleTest program, which runs it with all its parameters in one process.
# With thousands of parameters a process for each would spend more time on being started than on its test.
#
# -DPART=13: of a test with many parameters only every thirteenth, and of each test others. A prime, so that
# every value of each axis that the parameters are made of is among them.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE " +#[^\n]*" "" listed "${listed}")  # parameters may hold anything, semicolons too
string(REPLACE "\n" ";" lines "${listed}")
set(groups "")
foreach(line ${lines})
  if(line MATCHES "^([^ ].*)\\.$")
    set(suite ${CMAKE_MATCH_1})
  elseif(line MATCHES "^  ([^/]+)")
    list(APPEND groups "${suite}.${CMAKE_MATCH_1}")
    list(APPEND tests "${suite}.${CMAKE_MATCH_1}")
  endif()
endforeach()
list(REMOVE_DUPLICATES groups)
set(text "")
set(number 0)
foreach(group ${groups})
  set(of_group ${tests})
  list(FILTER of_group INCLUDE REGEX "^${group}$")
  list(LENGTH of_group parameters)
  set(environment "")
  if(PART AND parameters GREATER_EQUAL 26)
    math(EXPR shard "${number} % ${PART}")
    set(environment "ENVIRONMENT [==[GTEST_TOTAL_SHARDS=${PART};GTEST_SHARD_INDEX=${shard}]==]")
    math(EXPR number "${number} + 1")
  endif()
  string(APPEND text "add_test([==[${PREFIX}${group}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${group}:${group}/*]==] --gtest_brief=1)\n")
  string(APPEND text "set_tests_properties([==[${PREFIX}${group}]==] PROPERTIES ${PROPERTIES} ${environment})\n")
endforeach()
file(WRITE ${OUT} "${text}")
