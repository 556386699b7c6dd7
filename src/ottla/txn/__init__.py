"""Transactions as a pure core: commands in; records, replies, timers and markers out.

No I/O, no clock, no wire requests. `coordinator.TxnCore` holds the transactional ids of one partition of
`__transaction_state`; what is durable changes only by `replay` of a record, so loading a partition and living on it
share one path.
"""
