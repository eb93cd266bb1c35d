# What pawl is built on. Each becomes one imported target; a missing one is named with its Debian package.

function(pawl_missing what package)
  message(FATAL_ERROR "pawl needs ${what}, which was not found. On Debian: apt-get install ${package}")
endfunction()

find_package(PkgConfig)
if(NOT PKG_CONFIG_FOUND)
  pawl_missing("pkg-config" pkg-config)
endif()

# pawl_pkg(TARGET what package MODULE...): the first of the pkg-config modules that is there.
function(pawl_pkg target what package)
  foreach(module IN LISTS ARGN)
    pkg_check_modules(${target} QUIET IMPORTED_TARGET GLOBAL ${module})
    if(${target}_FOUND)
      add_library(dep_${target} INTERFACE IMPORTED GLOBAL)
      # SYSTEM: strict warnings are for our code, not for their headers.
      target_include_directories(dep_${target} SYSTEM INTERFACE ${${target}_INCLUDE_DIRS})
      target_link_libraries(dep_${target} INTERFACE PkgConfig::${target})
      string(REGEX REPLACE "[<>=].*" "" name ${module})
      set(dep_${target}_module ${name} PARENT_SCOPE) # for the .pc files of our own
      return()
    endif()
  endforeach()
  pawl_missing("${what}" ${package})
endfunction()

# pawl_lib(TARGET what package HEADER LIBRARY): a library without a .pc file.
function(pawl_lib target what package header library)
  find_path(${target}_INCLUDE ${header})
  find_library(${target}_LIBRARY ${library})
  if(NOT ${target}_INCLUDE OR NOT ${target}_LIBRARY)
    pawl_missing("${what}" ${package})
  endif()
  add_library(dep_${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(dep_${target} SYSTEM INTERFACE ${${target}_INCLUDE})
  target_link_libraries(dep_${target} INTERFACE ${${target}_LIBRARY})
endfunction()

# libmongoc 1.x calls its modules libmongoc-1.0 and libbson-1.0, 2.x mongoc2 and bson2.
pawl_pkg(bson "the BSON library (1.23 or later)" libbson-dev libbson-1.0>=1.23 bson2)
pawl_pkg(mongoc "the MongoDB C driver (1.23 or later)" libmongoc-dev libmongoc-1.0>=1.23 mongoc2)
pawl_pkg(zstd "the zstd library" libzstd-dev libzstd)
pawl_pkg(isal "Intel ISA-L (CRC-32C)" libisal-dev libisal)
pawl_pkg(inih "inih (option files)" libinih-dev inih)
pawl_lib(ev "libev" libev-dev ev.h ev)
pawl_pkg(microhttpd "GNU libmicrohttpd (0.9.75 or later)" libmicrohttpd-dev libmicrohttpd>=0.9.75)
pawl_pkg(ncurses "ncurses, with wide characters (pawl-status --top)" libncurses-dev ncursesw)
pkg_check_modules(systemd QUIET IMPORTED_TARGET GLOBAL libsystemd)
if(NOT systemd_FOUND)
  message(STATUS "libsystemd was not found: pawl-worker will tell systemd nothing. On Debian: apt-get install libsystemd-dev")
endif()
find_package(Threads REQUIRED)
if(PAWL_TESTS)
  pawl_pkg(cmocka "cmocka (tests; -DPAWL_TESTS=OFF builds without)" libcmocka-dev cmocka)
endif()
