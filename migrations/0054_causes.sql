-- What failed for the same reason, counted: open dead letters, and instances that are errored. The rows are kept by the triggers below, whoever
-- writes a letter or an end, so that each count is exact. Only failures ever write here. What a cause says is said by its newest sample.
CREATE TABLE causes (
  -- Empty for what names no tenant.
  tenant_id    TEXT    NOT NULL,
  kind         TEXT    NOT NULL CHECK (kind IN ('letter', 'instance')),
  -- A digest of place, type, step, code and the message without what varies in it.
  id           TEXT    NOT NULL,
  -- The queue of letters, the workflow of instances.
  place        TEXT    NOT NULL,
  message_type TEXT,
  -- Without the key of an item, which people may have chosen.
  step         TEXT,
  code         TEXT    NOT NULL,
  count        INTEGER NOT NULL CHECK (count >= 0),
  first_at     INTEGER NOT NULL,
  last_at      INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, kind, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX causes_by_time ON causes (tenant_id, kind, last_at, id);

-- The step that failed, where a letter knows one, and what its upstream answered. When it was tried first and last: NULL where nobody noted that.
ALTER TABLE dead_letters ADD COLUMN step TEXT;
ALTER TABLE dead_letters ADD COLUMN upstream_status INTEGER;
ALTER TABLE dead_letters ADD COLUMN cause TEXT;
ALTER TABLE dead_letters ADD COLUMN first_attempt_at INTEGER;
ALTER TABLE dead_letters ADD COLUMN last_attempt_at INTEGER;
-- Who has asked others to look at it, when, and what was said.
ALTER TABLE dead_letters ADD COLUMN escalated_at INTEGER;
ALTER TABLE dead_letters ADD COLUMN escalated_by TEXT;
ALTER TABLE dead_letters ADD COLUMN escalation TEXT;
-- The one automatic repair that was tried, and what came of it.
ALTER TABLE dead_letters ADD COLUMN repair TEXT CHECK (repair IS NULL OR json_valid(repair));
ALTER TABLE instances ADD COLUMN cause TEXT;

CREATE INDEX dead_letters_by_cause ON dead_letters (tenant_id, cause, state, captured_at, id);
CREATE INDEX dead_letters_escalated ON dead_letters (tenant_id, captured_at, id) WHERE escalated_at IS NOT NULL AND state = 'open';
-- An instance that runs through never enters it.
CREATE INDEX instances_by_cause ON instances (tenant_id, cause, accepted_at, id) WHERE status = 'errored';

CREATE TRIGGER letter_opened AFTER INSERT ON dead_letters WHEN NEW.state = 'open' AND NEW.cause IS NOT NULL BEGIN INSERT INTO causes (tenant_id, kind, id, place, message_type, step, code, count, first_at, last_at) VALUES (coalesce(NEW.tenant_id, ''), 'letter', NEW.cause, NEW.queue, NEW.message_type, NEW.step, NEW.reason, 1, NEW.captured_at, NEW.captured_at) ON CONFLICT (tenant_id, kind, id) DO UPDATE SET count = count + 1, first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at); END;
CREATE TRIGGER letter_settled AFTER UPDATE OF state ON dead_letters WHEN OLD.state = 'open' AND NEW.state <> 'open' AND OLD.cause IS NOT NULL BEGIN DELETE FROM causes WHERE tenant_id = coalesce(OLD.tenant_id, '') AND kind = 'letter' AND id = OLD.cause AND count <= 1; UPDATE causes SET count = count - 1 WHERE tenant_id = coalesce(OLD.tenant_id, '') AND kind = 'letter' AND id = OLD.cause; END;
CREATE TRIGGER letter_removed AFTER DELETE ON dead_letters WHEN OLD.state = 'open' AND OLD.cause IS NOT NULL BEGIN DELETE FROM causes WHERE tenant_id = coalesce(OLD.tenant_id, '') AND kind = 'letter' AND id = OLD.cause AND count <= 1; UPDATE causes SET count = count - 1 WHERE tenant_id = coalesce(OLD.tenant_id, '') AND kind = 'letter' AND id = OLD.cause; END;
-- A table of instances that is made anew needs its triggers anew.
CREATE TRIGGER instance_born_errored AFTER INSERT ON instances WHEN NEW.status = 'errored' AND NEW.cause IS NOT NULL BEGIN INSERT INTO causes (tenant_id, kind, id, place, message_type, step, code, count, first_at, last_at) VALUES (NEW.tenant_id, 'instance', NEW.cause, NEW.workflow, NEW.message_type, iif(NEW.error->>'step' LIKE '% [%]', substr(NEW.error->>'step', 1, instr(NEW.error->>'step', ' [') - 1), NEW.error->>'step'), coalesce(NEW.error->>'code', 'unknown'), 1, NEW.updated_at, NEW.updated_at) ON CONFLICT (tenant_id, kind, id) DO UPDATE SET count = count + 1, first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at); END;
CREATE TRIGGER instance_left_errored AFTER UPDATE OF status, cause ON instances WHEN OLD.status = 'errored' AND OLD.cause IS NOT NULL AND (NEW.status <> 'errored' OR NEW.cause IS NOT OLD.cause) BEGIN DELETE FROM causes WHERE tenant_id = OLD.tenant_id AND kind = 'instance' AND id = OLD.cause AND count <= 1; UPDATE causes SET count = count - 1 WHERE tenant_id = OLD.tenant_id AND kind = 'instance' AND id = OLD.cause; END;
CREATE TRIGGER instance_errored AFTER UPDATE OF status, cause ON instances WHEN NEW.status = 'errored' AND NEW.cause IS NOT NULL AND (OLD.status <> 'errored' OR NEW.cause IS NOT OLD.cause) BEGIN INSERT INTO causes (tenant_id, kind, id, place, message_type, step, code, count, first_at, last_at) VALUES (NEW.tenant_id, 'instance', NEW.cause, NEW.workflow, NEW.message_type, iif(NEW.error->>'step' LIKE '% [%]', substr(NEW.error->>'step', 1, instr(NEW.error->>'step', ' [') - 1), NEW.error->>'step'), coalesce(NEW.error->>'code', 'unknown'), 1, NEW.updated_at, NEW.updated_at) ON CONFLICT (tenant_id, kind, id) DO UPDATE SET count = count + 1, first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at); END;
CREATE TRIGGER instance_removed AFTER DELETE ON instances WHEN OLD.status = 'errored' AND OLD.cause IS NOT NULL BEGIN DELETE FROM causes WHERE tenant_id = OLD.tenant_id AND kind = 'instance' AND id = OLD.cause AND count <= 1; UPDATE causes SET count = count - 1 WHERE tenant_id = OLD.tenant_id AND kind = 'instance' AND id = OLD.cause; END;

-- The last failure of a message that has not been finished and has tries left. Its dead letter takes it over, also where the process of the
-- last try has died without a word. Rows of messages that were finished later leave with their age.
CREATE TABLE failed_deliveries (
  -- Empty for what names no tenant.
  tenant_id       TEXT    NOT NULL,
  -- The letter that the message would have.
  letter          TEXT    NOT NULL,
  code            TEXT,
  error           TEXT    NOT NULL,
  step            TEXT,
  upstream_status INTEGER,
  failures        INTEGER NOT NULL DEFAULT 1 CHECK (failures >= 1),
  first_at        INTEGER NOT NULL,
  last_at         INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, letter)
) STRICT, WITHOUT ROWID;
