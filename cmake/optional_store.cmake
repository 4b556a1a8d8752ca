# optional_store(NAME HEADER LIBRARY PACKAGE)
#
# The store of ops/core/stores/NAME, if the header and the library of the system that it needs are
# there. It is a module of its own, which is loaded when a table asks for it: the package imports
# where the library is absent. Appends to `store_targets` and `lower_tiers`, and sets NAME_summary.
#
# Not find_package: that of Debian's LevelDB names a snappy that its package does not bring.
function(optional_store name header library package)
  set(${name}_summary "left out: not found (Debian: ${package})" PARENT_SCOPE)
  find_path(${name}_INCLUDE ${header})
  find_library(${name}_LIBRARY ${library})
  if(NOT ${name}_INCLUDE OR NOT ${name}_LIBRARY)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ops/core/stores/${name}/*.cc)
  add_library(keras_sparse_${name} OBJECT ${sources})
  target_include_directories(keras_sparse_${name} SYSTEM PRIVATE "${${name}_INCLUDE}")
  target_link_libraries(keras_sparse_${name} PUBLIC keras_sparse_options Threads::Threads
                                                    "${${name}_LIBRARY}")
  string(TOUPPER ${name} tier)
  set(store_targets ${store_targets} keras_sparse_${name} PARENT_SCOPE)
  set(lower_tiers ${lower_tiers} ${tier} PARENT_SCOPE)
  set(${name}_summary "${${name}_LIBRARY}" PARENT_SCOPE)
endfunction()
