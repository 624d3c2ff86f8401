-- A delivery can be asked for again: the request that did so last, so that the same one does it once.
ALTER TABLE webhook_deliveries ADD COLUMN redelivery TEXT;
