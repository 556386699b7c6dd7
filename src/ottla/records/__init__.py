"""Record batches, format v2 (magic 2): the bytes that producers send, logs store and consumers fetch.

A pure layer over bytes: `format` has the constants, `header` and `reader` read, `builder` and `rewrite` write, and
`validate` has the checks of a leader before it appends a batch. `docs/formats/record-batch.md` describes the bytes.
"""
