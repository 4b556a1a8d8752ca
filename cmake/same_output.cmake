# Runs two programs, and is an error unless both print the same.
#
#   cmake -DFIRST=PROGRAM -DSECOND=PROGRAM -P same_output.cmake

foreach(which FIRST SECOND)
  execute_process(COMMAND "${${which}}" OUTPUT_VARIABLE output_${which} COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" lines_${which} "${output_${which}}")
endforeach()
list(LENGTH lines_FIRST num_lines)
if(output_FIRST STREQUAL output_SECOND AND num_lines GREATER 1)
  message("${num_lines} lines")
  return()
endif()
list(REMOVE_ITEM lines_FIRST ${lines_SECOND})
list(JOIN lines_FIRST "\n" different)
message(FATAL_ERROR "${FIRST} and ${SECOND} must print the same lines, at least two. "
                    "Received: of ${num_lines} lines these from the first alone\n${different}")
