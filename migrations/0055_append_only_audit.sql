-- Which token was used, what of its scopes the request needed, and what an action has changed: how its target stood, and how it stands.
ALTER TABLE actions ADD COLUMN token_id TEXT;
ALTER TABLE actions ADD COLUMN scope TEXT;
ALTER TABLE actions ADD COLUMN before TEXT CHECK (before IS NULL OR json_valid(before));
ALTER TABLE actions ADD COLUMN after TEXT CHECK (after IS NULL OR json_valid(after));
-- Steps that a cancel has cut off, as JSON: known only while it is carried out, so no part of what the audit says.
ALTER TABLE actions ADD COLUMN cut_off TEXT CHECK (cut_off IS NULL OR json_valid(cut_off));

-- GET /v1/audit of one target, and of one result, however much else was done. Two entries more an action, of which there are few.
CREATE INDEX actions_by_target ON actions (tenant_id, target, at, id);
CREATE INDEX actions_by_result ON actions (tenant_id, result, at, id);

-- One row for the length of a transaction that may change or remove what the audit says: of old rows, a person who is forgotten, a tenant that is deleted.
CREATE TABLE audit_opened (id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1)) STRICT;

-- What the audit says is only added to. How far the platform has heard of an action (due_at, attempts, error, lease_until, restarted_at, cut_off, applied_at) moves until it has.
CREATE TRIGGER actions_keep_what_is_said BEFORE UPDATE OF id, tenant_id, actor, token_id, scope, verb, target, instance_id, reason, detail, before, after, at ON actions WHEN NOT EXISTS (SELECT 1 FROM audit_opened) BEGIN SELECT RAISE(ABORT, 'The audit is only added to: what a row of actions says does not change.'); END;
CREATE TRIGGER actions_keep_their_result BEFORE UPDATE OF result ON actions WHEN NEW.result IS NOT OLD.result AND NOT (OLD.result = 'applied' AND NEW.result = 'failed' AND OLD.applied_at IS NULL) BEGIN SELECT RAISE(ABORT, 'The audit is only added to: a result becomes failed once, while its promise is open, and nothing else.'); END;
CREATE TRIGGER actions_are_kept BEFORE DELETE ON actions WHEN NOT EXISTS (SELECT 1 FROM audit_opened) BEGIN SELECT RAISE(ABORT, 'The audit is only added to: a row of actions is removed by retention and erasure alone.'); END;
-- An insert that would replace a row does nothing, as a repeated one does.
CREATE TRIGGER actions_are_not_replaced BEFORE INSERT ON actions WHEN EXISTS (SELECT 1 FROM actions WHERE id = NEW.id) BEGIN SELECT RAISE(IGNORE); END;

-- Which tokens a token comes from, by their ids, the first one first: all that one has minted can be ended with it, also by way of one that is gone.
ALTER TABLE tokens ADD COLUMN minted_by TEXT;
-- When a token was used last, to the hour: one write a token and hour at most. NULL until then, and of tokens that were not used since this came.
ALTER TABLE tokens ADD COLUMN used_at INTEGER;
