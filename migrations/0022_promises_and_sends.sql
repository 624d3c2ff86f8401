-- When a message was sent last, once the keeper has looked at it: its time of the next look moves with each. NULL: when it was committed, 10 seconds before it is due.
ALTER TABLE outbox ADD COLUMN sent_at INTEGER;
