"""Transactions as a pure core: commands in; records, replies, timers and markers out.

No I/O, no clock, no wire requests. `core.TxnCore` holds the transactional ids of one partition of
`__transaction_state`. Durable state changes only by `replay` of a record, so loading and serving share one code path.
"""
