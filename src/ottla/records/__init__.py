"""Record batches, format v2 (magic 2): the bytes that producers send, logs store and consumers fetch.

A pure layer over bytes: `format` holds the constants, `header` and `reader` read, `builder` and `rewrite` write,
`validate` is what a leader checks before it stores a batch. `docs/formats/record-batch.md` describes the bytes.
"""
