// Annotations for Clang's -Wthread-safety: which lock guards a field, and which locks a method
// requires, takes or excludes. Other compilers ignore them. `make tidy` checks them.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_THREAD_ANNOTATIONS_H_
#define KERAS_SPARSE_OPS_CORE_BASE_THREAD_ANNOTATIONS_H_

#if defined(__clang__)
#define KERAS_SPARSE_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define KERAS_SPARSE_THREAD_ATTRIBUTE(attribute)
#endif

// For a field. With several locks it is written under all of them, and read under any.
#define GUARDED_BY(...) KERAS_SPARSE_THREAD_ATTRIBUTE(guarded_by(__VA_ARGS__))
// For a lock that is taken before others.
#define ACQUIRED_BEFORE(...) KERAS_SPARSE_THREAD_ATTRIBUTE(acquired_before(__VA_ARGS__))

// For a function that requires these locks, exclusive or shared, or that excludes them.
#define REQUIRES(...) KERAS_SPARSE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) KERAS_SPARSE_THREAD_ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
#define EXCLUDES(...) KERAS_SPARSE_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))

// For a function that takes or releases a lock; without an argument, the object itself.
#define ACQUIRE(...) KERAS_SPARSE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define ACQUIRE_SHARED(...) KERAS_SPARSE_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define RELEASE(...) KERAS_SPARSE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define RELEASE_SHARED(...) KERAS_SPARSE_THREAD_ATTRIBUTE(release_shared_capability(__VA_ARGS__))

// For a function whose locks cannot be named, such as locks in a list.
#define NO_THREAD_SAFETY_ANALYSIS KERAS_SPARSE_THREAD_ATTRIBUTE(no_thread_safety_analysis)

// For a class of locks, and for a class of objects that hold a lock during their lifetime.
#define CAPABILITY(name) KERAS_SPARSE_THREAD_ATTRIBUTE(capability(name))
#define SCOPED_CAPABILITY KERAS_SPARSE_THREAD_ATTRIBUTE(scoped_lockable)

#endif  // KERAS_SPARSE_OPS_CORE_BASE_THREAD_ANNOTATIONS_H_
