/* Preloaded: once the file named by BROKEN_FLAG is there, calls on files below BROKEN_FOLDER fail
   with EIO. BROKEN_CALLS is "read" or "write". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int broken(int fd, const char *calls) {
    const char *folder = getenv("BROKEN_FOLDER"), *flag = getenv("BROKEN_FLAG");
    const char *wanted = getenv("BROKEN_CALLS");
    char link[64], path[4096];
    if (!folder || !flag || !wanted || strcmp(wanted, calls) || access(flag, F_OK)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    /* RocksDB's own log is text for people. */
    return !strncmp(path, folder, strlen(folder)) && !strstr(path, "/LOG");
}

#define BREAK(calls, result, name, parameters, arguments)                     \
    result name parameters {                                                  \
        static result (*real) parameters;                                     \
        if (!real) real = (result (*) parameters)dlsym(RTLD_NEXT, #name);     \
        if (broken(fd, calls)) { errno = EIO; return -1; }                    \
        return real arguments;                                                \
    }

BREAK("write", ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
BREAK("write", ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
BREAK("write", ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
BREAK("write", int, fsync, (int fd), (fd))
BREAK("write", int, fdatasync, (int fd), (fd))
BREAK("read", ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
BREAK("read", ssize_t, pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
BREAK("read", ssize_t, pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
