# Man pages and changelog are compressed in a Debian package, without a time stamp.
file(GLOB files ${CPACK_TEMPORARY_DIRECTORY}/usr/share/man/man1/*.1 ${CPACK_TEMPORARY_DIRECTORY}/usr/share/doc/pawl/changelog)
execute_process(COMMAND gzip -9n ${files} COMMAND_ERROR_IS_FATAL ANY)
