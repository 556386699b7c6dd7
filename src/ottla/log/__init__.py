"""The storage engine: one partition's log, and the directory that holds many of them, in Kafka's own file formats.

`log` is one partition. It consists of `segment`s with their `index`es, of `producers` and `epochs`. `directory` owns a
log directory, `recovery` opens the logs in it after a clean stop or a crash, and `retention` decides which segments may
be deleted. Nothing here depends on requests, sockets or replicas. `docs/formats/log-directory.md` describes the files.

Everything runs on one event loop without locks, except functions whose docstring allows a thread, such as `Log.sync`
and `Trash.sweep`.
"""
