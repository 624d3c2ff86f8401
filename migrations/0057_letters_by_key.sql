-- Dead letters by the key and by the job of their message: for who looks for one of these. A run writes no letter, so its rows are as before.
CREATE INDEX dead_letters_by_key ON dead_letters (tenant_id, idempotency_key, captured_at, id) WHERE idempotency_key IS NOT NULL;
CREATE INDEX dead_letters_by_correlation ON dead_letters (tenant_id, correlation_id, captured_at, id) WHERE correlation_id IS NOT NULL;
