"""Linux interfaces that Python does not offer: system calls, /proc, inotify, signals as events."""
