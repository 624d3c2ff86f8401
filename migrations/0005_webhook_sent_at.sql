-- When the receiver first accepted a delivery. A later redelivery changes the state, and not this.
ALTER TABLE webhook_deliveries ADD COLUMN sent_at INTEGER;
UPDATE webhook_deliveries SET sent_at = coalesce(CAST(unixepoch(attempts->>'$[#-1].at', 'subsec') * 1000 AS INTEGER), matched_at)
  WHERE state = 'sent';
