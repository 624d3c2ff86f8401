-- When the receiver first accepted a delivery: a later redelivery changes the state, and not this. A delivery that was sent before this
-- column gets it with its next redelivery.
ALTER TABLE webhook_deliveries ADD COLUMN sent_at INTEGER;
