-- The time when the receiver first accepted a delivery. A later redelivery changes the state and leaves this time unchanged. For a delivery
-- that is older than this column, the next redelivery sets the time.
ALTER TABLE webhook_deliveries ADD COLUMN sent_at INTEGER;
