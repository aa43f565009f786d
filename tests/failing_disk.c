/* A disk that fails when it is told to: stands between a program and libc (LD_PRELOAD).
 *
 * $FAULTY_DISK names a page that the test shares with the program. While `error` is set, every
 * call that changes a file whose path has `part` in it fails with that error, and is counted:
 * those that open or name a file (EACCES, EROFS), or those that fill it (ENOSPC, EIO). Of the
 * file with the number `bad` no byte can be read from `from` on, whatever its name is by then. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct page {
    int error, count;
    char part[1024];
    unsigned long bad, from;
};
static struct page *page;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("FAULTY_DISK");
    int file = name ? syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC, 0) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    page = found == MAP_FAILED ? NULL : found;
    if (file >= 0) syscall(SYS_close, file);
}

static int fails(const char *path) {
    if (!strstr(path, page->part)) return 0;
    __atomic_add_fetch(&page->count, 1, __ATOMIC_SEQ_CST);
    errno = page->error;
    return 1;
}

static int is_on(int filling) {
    int error = page ? page->error : 0;
    return error && filling == (error == ENOSPC || error == EIO);
}

static int fails_at(int directory, const char *name) {
    char path[2 * PATH_MAX] = "", link[64];
    if (!is_on(0)) return 0;
    if (name[0] != '/' && directory != AT_FDCWD) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        ssize_t size = readlink(link, path, PATH_MAX);
        path[size < 0 ? 0 : size] = 0;
        strcat(path, "/");
    }
    strncat(path, name, PATH_MAX - 1);
    return fails(path);
}

static int fails_in(int file) {
    char path[PATH_MAX] = "", link[64];
    if (!is_on(1)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size < 0 ? 0 : size] = 0;
    return fails(path);
}

/* Returns how many of these bytes can be read, or -1. */
static ssize_t readable(int file, unsigned long at, size_t size) {
    struct stat found;
    if (!page || !page->bad || fstat(file, &found) || found.st_ino != page->bad) return size;
    if (at < page->from) return at + size < page->from ? size : page->from - at;
    __atomic_add_fetch(&page->count, 1, __ATOMIC_SEQ_CST);
    errno = EIO;
    return -1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CHANGES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define OPEN(name, declared, directory, ...)                                   \
    int name declared {                                                        \
        va_list rest;                                                          \
        va_start(rest, flags);                                                 \
        mode_t mode = va_arg(rest, mode_t);                                    \
        va_end(rest);                                                          \
        if ((flags & CHANGES) && fails_at(directory, path)) return -1;         \
        return NEXT(name)(__VA_ARGS__, mode);                                  \
    }
OPEN(open, (const char *path, int flags, ...), AT_FDCWD, path, flags)
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD, path, flags)
OPEN(openat, (int at, const char *path, int flags, ...), at, at, path, flags)
OPEN(openat64, (int at, const char *path, int flags, ...), at, at, path, flags)

#define FILL(type, name, declared, ...)                                        \
    type name declared { return fails_in(file) ? -1 : NEXT(name)(__VA_ARGS__); }
FILL(ssize_t, write, (int file, const void *data, size_t size), file, data, size)
FILL(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), file, data, size, at)
FILL(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at), file, data, size, at)
FILL(int, fsync, (int file), file)
FILL(int, fdatasync, (int file), file)

#define READ(name, declared, place, ...)                                       \
    ssize_t name declared {                                                    \
        ssize_t part = readable(file, place, size);                            \
        return part < 0 ? -1 : NEXT(name)(file, data, part __VA_ARGS__);       \
    }
READ(read, (int file, void *data, size_t size), lseek(file, 0, SEEK_CUR))
READ(pread, (int file, void *data, size_t size, off_t at), at, , at)
READ(pread64, (int file, void *data, size_t size, off64_t at), at, , at)

#define NAME(name, declared, directory, path, ...)                             \
    int name declared { return fails_at(directory, path) ? -1 : NEXT(name)(__VA_ARGS__); }
NAME(mkdir, (const char *path, mode_t mode), AT_FDCWD, path, path, mode)
NAME(mkdirat, (int at, const char *path, mode_t mode), at, path, at, path, mode)
NAME(rename, (const char *from, const char *to), AT_FDCWD, to, from, to)
NAME(renameat, (int a, const char *from, int b, const char *to), b, to, a, from, b, to)
