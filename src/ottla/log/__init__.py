"""The storage engine: one partition's log, and the directory that holds many of them, in Kafka's own file formats.

`log` is one partition; it is made of `segment`s with their `index`es, of `producers` and `epochs`. `directory` owns a
log directory, `recovery` opens what a stop or a crash left there, `retention` decides what may go. Nothing here knows
of requests, sockets or replicas. `docs/formats/log-directory.md` describes the files.

Everything runs on one event loop without locks, except what says that it may run in a thread: `Log.sync` and
`Trash.sweep`.
"""
