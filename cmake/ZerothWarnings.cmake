# Warnings for our own code, never for those who use it.
function(zeroth_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
                                           -Woverloaded-virtual -Wold-style-cast)
  if(ZEROTH_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
