// What Clang's -Wthread-safety reads: which lock a field has, and which locks a method needs, takes
// or must not be called with. Nothing to other compilers. `make tidy` checks them.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_THREAD_ANNOTATIONS_H_
#define KERAS_SPARSE_OPS_CORE_BASE_THREAD_ANNOTATIONS_H_

#if defined(__clang__)
#define KERAS_SPARSE_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define KERAS_SPARSE_THREAD_ATTRIBUTE(attribute)
#endif

// A field. With several locks it is written under all of them, and read under any.
#define GUARDED_BY(...) KERAS_SPARSE_THREAD_ATTRIBUTE(guarded_by(__VA_ARGS__))
// A lock that is taken before others.
#define ACQUIRED_BEFORE(...) KERAS_SPARSE_THREAD_ATTRIBUTE(acquired_before(__VA_ARGS__))

// A function that is called with these locks held, one of them perhaps shared; or without them.
#define REQUIRES(...) KERAS_SPARSE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) KERAS_SPARSE_THREAD_ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
#define EXCLUDES(...) KERAS_SPARSE_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))

// A function that takes a lock, or gives it back; without an argument, the object itself.
#define ACQUIRE(...) KERAS_SPARSE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define ACQUIRE_SHARED(...) KERAS_SPARSE_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define RELEASE(...) KERAS_SPARSE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define RELEASE_SHARED(...) KERAS_SPARSE_THREAD_ATTRIBUTE(release_shared_capability(__VA_ARGS__))

// A class of locks, and one of objects that hold a lock while they live.
#define CAPABILITY(name) KERAS_SPARSE_THREAD_ATTRIBUTE(capability(name))
#define SCOPED_CAPABILITY KERAS_SPARSE_THREAD_ATTRIBUTE(scoped_lockable)

#endif  // KERAS_SPARSE_OPS_CORE_BASE_THREAD_ANNOTATIONS_H_
