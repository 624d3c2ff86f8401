-- When a message was sent last, once the keeper has looked at it: its time of the next look moves with each. NULL: when it was committed, 10 seconds before it is due.
ALTER TABLE outbox ADD COLUMN sent_at INTEGER;

-- Until when somebody carries a promise to the platform: one at a time, or a run would be restarted twice.
ALTER TABLE actions ADD COLUMN lease_until INTEGER NOT NULL DEFAULT 0;
-- When a retry has restarted its run: one that goes on without it may be the run before, in its last moments.
ALTER TABLE actions ADD COLUMN restarted_at INTEGER;
