"""Running code that nobody here wrote: bubblewrap, resource limits, and a pool of warm workers."""
