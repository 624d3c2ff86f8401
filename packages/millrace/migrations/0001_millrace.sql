-- The tables of the engine. All names begin with millrace_, so that the names never collide with names of the app.

CREATE TABLE millrace_actions (
  id           TEXT    NOT NULL PRIMARY KEY,
  tenant_id    TEXT    NOT NULL,
  actor        TEXT    NOT NULL,
  verb         TEXT    NOT NULL,
  target       TEXT    NOT NULL,
  instance_id  TEXT,
  reason       TEXT    NOT NULL,
  detail       TEXT    CHECK (detail IS NULL OR json_valid(detail)),
  result       TEXT    NOT NULL,
  at           INTEGER NOT NULL,
  applied_at   INTEGER,
  due_at       INTEGER NOT NULL DEFAULT 0,
  attempts     INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  error        TEXT,
  lease_until  INTEGER NOT NULL DEFAULT 0,
  restarted_at INTEGER,
  token_id     TEXT,
  scope        TEXT,
  before       TEXT    CHECK (before IS NULL OR json_valid(before)),
  after        TEXT    CHECK (after IS NULL OR json_valid(after)),
  cut_off      TEXT    CHECK (cut_off IS NULL OR json_valid(cut_off))
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_actions_by_time ON millrace_actions (tenant_id, at, id);
CREATE INDEX millrace_actions_to_apply ON millrace_actions (due_at) WHERE applied_at IS NULL;
CREATE INDEX millrace_actions_open ON millrace_actions (instance_id) WHERE applied_at IS NULL;
CREATE INDEX millrace_actions_by_target ON millrace_actions (tenant_id, target, at, id);
CREATE INDEX millrace_actions_by_result ON millrace_actions (tenant_id, result, at, id);
CREATE TRIGGER millrace_actions_keep_what_is_said BEFORE UPDATE OF id, tenant_id, actor, token_id, scope, verb, target, instance_id, reason, detail, before, after, at ON millrace_actions WHEN NOT EXISTS (SELECT 1 FROM millrace_audit_opened) BEGIN SELECT RAISE(ABORT, 'The audit is append-only: a recorded action does not change.'); END;
CREATE TRIGGER millrace_actions_keep_their_result BEFORE UPDATE OF result ON millrace_actions WHEN NEW.result IS NOT OLD.result AND NOT (OLD.result = 'applied' AND NEW.result = 'failed' AND OLD.applied_at IS NULL) BEGIN SELECT RAISE(ABORT, 'The audit is append-only: only an open action can change its result, once, to failed.'); END;
CREATE TRIGGER millrace_actions_are_kept BEFORE DELETE ON millrace_actions WHEN NOT EXISTS (SELECT 1 FROM millrace_audit_opened) BEGIN SELECT RAISE(ABORT, 'The audit is append-only: only retention and erasure remove actions.'); END;
CREATE TRIGGER millrace_actions_are_not_replaced BEFORE INSERT ON millrace_actions WHEN EXISTS (SELECT 1 FROM millrace_actions WHERE id = NEW.id) BEGIN SELECT RAISE(IGNORE); END;
CREATE INDEX millrace_actions_by_actor ON millrace_actions (tenant_id, actor, at, id);
CREATE INDEX millrace_actions_by_verb ON millrace_actions (tenant_id, verb, at, id);
CREATE INDEX millrace_actions_by_themselves ON millrace_actions (tenant_id, at, id) WHERE detail->>'bulk' IS NULL;
CREATE INDEX millrace_actions_by_instance ON millrace_actions (tenant_id, instance_id, at, id) WHERE instance_id IS NOT NULL;

CREATE TABLE millrace_alerts (
  id             TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 32),
  rule           TEXT    NOT NULL,
  -- The labels of the group to which the alert applies, as JSON, sorted by name.
  labels         TEXT    NOT NULL,
  state          TEXT    NOT NULL CHECK (state IN ('pending', 'firing', 'resolved')),
  severity       TEXT    NOT NULL CHECK (severity IN ('warning', 'critical')),
  value          REAL    NOT NULL,
  -- The number of occurrences. NULL if the rule compares a level.
  count          INTEGER,
  -- At most three ids of affected instances or messages, as JSON.
  examples       TEXT    NOT NULL,
  since          INTEGER NOT NULL,
  critical_since INTEGER,
  milder_since   INTEGER,
  quiet_since    INTEGER,
  fired_at       INTEGER CHECK (state = 'pending' OR fired_at IS NOT NULL),
  -- The time and the severity of the last notification.
  notice_at      INTEGER,
  notice_severity TEXT   CHECK (notice_severity IN ('warning', 'critical') AND notice_at IS NOT NULL OR notice_severity IS NULL AND notice_at IS NULL),
  last_at        INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  resolved_at    INTEGER CHECK ((state = 'resolved') = (resolved_at IS NOT NULL)),
  -- No notification is sent before this time.
  muted_until    INTEGER,
  mute_reason    TEXT    CHECK ((mute_reason IS NULL) = (muted_until IS NULL)),
  -- Each write increments the version. If two writes are based on the same version, the second write is refused.
  version        INTEGER NOT NULL CHECK (version >= 1)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX millrace_alerts_open ON millrace_alerts (rule, labels) WHERE state <> 'resolved';
CREATE INDEX millrace_alerts_by_time ON millrace_alerts (since, id);
CREATE INDEX millrace_alerts_muted ON millrace_alerts (muted_until) WHERE muted_until IS NOT NULL;

CREATE TABLE millrace_approvals (
  instance_id TEXT    NOT NULL,
  step        TEXT    NOT NULL,
  -- The instance id and a digest of the step. Because the id contains the instance id, a query by id can use the primary key, whose first
  -- column is the instance id.
  id          TEXT    NOT NULL CHECK (id GLOB instance_id || '-*'),
  tenant_id   TEXT    NOT NULL,
  workflow    TEXT    NOT NULL,
  question    TEXT    NOT NULL CHECK (length(question) <= 500),
  details     TEXT    CHECK (details IS NULL OR json_valid(details)),
  state       TEXT    NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'rejected')),
  -- The decision that applies if nobody answers before the deadline.
  otherwise   TEXT    NOT NULL CHECK (otherwise IN ('approve', 'reject')),
  due_at      INTEGER NOT NULL,
  -- The person or token that decided. NULL if nobody answered before the deadline.
  decided_by  TEXT,
  reason      TEXT,
  asked_at    INTEGER NOT NULL,
  decided_at  INTEGER CHECK ((decided_at IS NULL) = (state = 'pending')),
  PRIMARY KEY (instance_id, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_approvals_by_time ON millrace_approvals (tenant_id, asked_at, id);
CREATE INDEX millrace_approvals_pending ON millrace_approvals (tenant_id, asked_at, id) WHERE state = 'pending';

CREATE TABLE millrace_audit_opened (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1)
) STRICT;

CREATE TABLE millrace_bulk_actions (
  id            TEXT    NOT NULL PRIMARY KEY,
  tenant_id     TEXT    NOT NULL,
  actor         TEXT    NOT NULL,
  verb          TEXT    NOT NULL,
  reason        TEXT    NOT NULL,
  -- The request: the filter or the number of ids, the ramp, the rate, and the bounds.
  asked         TEXT    NOT NULL CHECK (json_valid(asked)),
  -- Distinguishes a repeated request from a reused key.
  fingerprint   TEXT    NOT NULL,
  state         TEXT    NOT NULL CHECK (state IN ('running', 'complete', 'stopped', 'aborted')),
  why           TEXT,
  pass          INTEGER NOT NULL DEFAULT 1 CHECK (pass >= 1),
  instance_id   TEXT    NOT NULL,
  -- The number of items. NULL only until the write that creates the row is complete.
  matched       INTEGER,
  done          INTEGER NOT NULL DEFAULT 0,
  skipped       INTEGER NOT NULL DEFAULT 0,
  failed        INTEGER NOT NULL DEFAULT 0,
  -- The number of items whose outcome the engine has checked.
  looked        INTEGER NOT NULL DEFAULT 0,
  -- The number of the first item in the current stage, and the numbers of items that were skipped and failed before this stage.
  stage_from    INTEGER NOT NULL DEFAULT 0,
  stage_skipped INTEGER NOT NULL DEFAULT 0,
  stage_failed  INTEGER NOT NULL DEFAULT 0,
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL,
  ended_at      INTEGER CHECK ((ended_at IS NULL) = (state = 'running')),
  CHECK (done >= 0 AND skipped >= 0 AND failed >= 0 AND done + skipped + failed <= matched AND looked <= done + skipped + failed)
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_bulk_actions_by_time ON millrace_bulk_actions (tenant_id, created_at, id);
CREATE INDEX millrace_bulk_actions_running ON millrace_bulk_actions (tenant_id) WHERE state = 'running';

CREATE TABLE millrace_bulk_items (
  tenant_id TEXT    NOT NULL,
  bulk_id   TEXT    NOT NULL,
  result    TEXT    NOT NULL CHECK (result IN ('done', 'skipped', 'failed')),
  n         INTEGER NOT NULL,
  target    TEXT    NOT NULL,
  -- The reason why the item was skipped or failed: an error code and a sentence.
  code      TEXT,
  why       TEXT,
  at        INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, bulk_id, result, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_bulk_lists (
  tenant_id TEXT    NOT NULL,
  bulk_id   TEXT    NOT NULL,
  n         INTEGER NOT NULL,
  ids       TEXT    NOT NULL CHECK (json_valid(ids)),
  PRIMARY KEY (tenant_id, bulk_id, n)
) STRICT;

CREATE TABLE millrace_causes (
  -- The empty string for a cause that belongs to no tenant.
  tenant_id    TEXT    NOT NULL,
  kind         TEXT    NOT NULL CHECK (kind IN ('letter', 'instance')),
  -- A digest of the place, the type, the step, the code, and the error message without variable parts.
  id           TEXT    NOT NULL,
  -- For dead letters, the queue. For instances, the workflow.
  place        TEXT    NOT NULL,
  message_type TEXT,
  -- The name of the step without the key of an item, because this key may contain user data.
  step         TEXT,
  code         TEXT    NOT NULL,
  count        INTEGER NOT NULL CHECK (count >= 0),
  first_at     INTEGER NOT NULL,
  last_at      INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, kind, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_causes_by_time ON millrace_causes (tenant_id, kind, last_at, id);

-- The cell of each tenant, in the database of the first cell of a deployment with several cells. In the database of each cell, the row with
-- an empty tenant_id has the number of this cell.
CREATE TABLE millrace_cells (
  tenant_id TEXT    NOT NULL PRIMARY KEY,
  cell      INTEGER NOT NULL CHECK (cell >= 1),
  -- The stage of a move. copying: nothing has changed. closing: the tenant gets no new commands. frozen, ready: the tenant is unavailable.
  -- clearing: the tenant lives in the new cell, and the former cell still has rows of it. cancelling: the tenant stays in its cell, and the
  -- other cell still has copies of its rows. NULL for a tenant that is not moving.
  stage     TEXT    CHECK (stage IN ('copying', 'closing', 'frozen', 'ready', 'clearing', 'cancelling')),
  -- The new cell of a moving tenant. In the stage clearing, the former cell.
  other     INTEGER CHECK ((other IS NULL) = (stage IS NULL)),
  -- When the move and its stage began.
  moved_at  INTEGER CHECK ((moved_at IS NULL) = (stage IS NULL)),
  staged_at INTEGER CHECK ((staged_at IS NULL) = (stage IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_cells_by_cell ON millrace_cells (cell);

CREATE TABLE millrace_counts (
  span    TEXT    NOT NULL CHECK (span IN ('minute', 'hour', 'ever')),
  at      INTEGER NOT NULL CHECK (at >= 0),
  body    TEXT    NOT NULL CHECK (json_valid(body)),
  -- Only used in the row whose span is ever. Each import of counts increments the version, so that an outdated import is refused.
  version INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (span, at)
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_dead_letters (
  id               TEXT    NOT NULL PRIMARY KEY,
  tenant_id        TEXT,
  queue            TEXT    NOT NULL,
  message_type     TEXT,
  idempotency_key  TEXT,
  correlation_id   TEXT,
  instance_id      TEXT,
  body             TEXT    NOT NULL,
  reason           TEXT    NOT NULL,
  issues           TEXT    CHECK (issues IS NULL OR json_valid(issues)),
  error            TEXT,
  attempts         INTEGER NOT NULL,
  first_at         INTEGER NOT NULL,
  captured_at      INTEGER NOT NULL,
  state            TEXT    NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'replayed', 'skipped')),
  settled_at       INTEGER,
  step             TEXT,
  upstream_status  INTEGER,
  cause            TEXT,
  first_attempt_at INTEGER,
  last_attempt_at  INTEGER,
  escalated_at     INTEGER,
  escalated_by     TEXT,
  escalation       TEXT,
  repair           TEXT    CHECK (repair IS NULL OR json_valid(repair))
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_dead_letters_by_time ON millrace_dead_letters (state, captured_at, id);
CREATE INDEX millrace_dead_letters_by_tenant ON millrace_dead_letters (tenant_id, state, captured_at, id);
CREATE INDEX millrace_dead_letters_open ON millrace_dead_letters (queue, reason) WHERE state = 'open';
CREATE INDEX millrace_dead_letters_of_instance ON millrace_dead_letters (instance_id) WHERE state = 'open' AND instance_id IS NOT NULL;
CREATE INDEX millrace_dead_letters_by_cause ON millrace_dead_letters (tenant_id, cause, state, captured_at, id);
CREATE INDEX millrace_dead_letters_escalated ON millrace_dead_letters (tenant_id, captured_at, id) WHERE escalated_at IS NOT NULL AND state = 'open';
CREATE TRIGGER millrace_letter_opened AFTER INSERT ON millrace_dead_letters WHEN NEW.state = 'open' AND NEW.cause IS NOT NULL BEGIN INSERT INTO millrace_causes (tenant_id, kind, id, place, message_type, step, code, count, first_at, last_at) VALUES (coalesce(NEW.tenant_id, ''), 'letter', NEW.cause, NEW.queue, NEW.message_type, NEW.step, NEW.reason, 1, NEW.captured_at, NEW.captured_at) ON CONFLICT (tenant_id, kind, id) DO UPDATE SET count = count + 1, first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at); END;
CREATE TRIGGER millrace_letter_settled AFTER UPDATE OF state ON millrace_dead_letters WHEN OLD.state = 'open' AND NEW.state <> 'open' AND OLD.cause IS NOT NULL BEGIN DELETE FROM millrace_causes WHERE tenant_id = coalesce(OLD.tenant_id, '') AND kind = 'letter' AND id = OLD.cause AND count <= 1; UPDATE millrace_causes SET count = count - 1 WHERE tenant_id = coalesce(OLD.tenant_id, '') AND kind = 'letter' AND id = OLD.cause; END;
CREATE TRIGGER millrace_letter_removed AFTER DELETE ON millrace_dead_letters WHEN OLD.state = 'open' AND OLD.cause IS NOT NULL BEGIN DELETE FROM millrace_causes WHERE tenant_id = coalesce(OLD.tenant_id, '') AND kind = 'letter' AND id = OLD.cause AND count <= 1; UPDATE millrace_causes SET count = count - 1 WHERE tenant_id = coalesce(OLD.tenant_id, '') AND kind = 'letter' AND id = OLD.cause; END;
CREATE INDEX millrace_dead_letters_by_key ON millrace_dead_letters (tenant_id, idempotency_key, captured_at, id) WHERE idempotency_key IS NOT NULL;
CREATE INDEX millrace_dead_letters_by_correlation ON millrace_dead_letters (tenant_id, correlation_id, captured_at, id) WHERE correlation_id IS NOT NULL;
CREATE INDEX millrace_dead_letters_by_subject ON millrace_dead_letters (tenant_id, iif(json_valid(body), substr(body->>'subject', 1, 1000), NULL), captured_at, id) WHERE state = 'open';

CREATE TABLE millrace_divergences (
  kind      TEXT    NOT NULL,
  -- The id of an instance, a message or a dead letter. For an object that a user named, a digest of the name.
  what      TEXT    NOT NULL,
  -- NULL if the divergence belongs to no tenant.
  tenant_id TEXT,
  -- The check that found the divergence, and the position at which this check must start to find the divergence first.
  found_by  TEXT    NOT NULL,
  place     TEXT    NOT NULL,
  -- The two values that differ.
  says      TEXT    NOT NULL,
  state     TEXT    NOT NULL CHECK (state IN ('suspected', 'repairing', 'open', 'repaired', 'gone')),
  first_at  INTEGER NOT NULL,
  seen_at   INTEGER NOT NULL,
  times     INTEGER NOT NULL DEFAULT 1 CHECK (times >= 1),
  -- The number of repairs so far.
  repairs     INTEGER NOT NULL DEFAULT 0 CHECK (repairs >= 0),
  -- The time of the next check of this divergence.
  look_at   INTEGER CHECK ((look_at IS NULL) = (state IN ('repaired', 'gone'))),
  ended_at  INTEGER CHECK ((ended_at IS NULL) = (look_at IS NOT NULL)),
  PRIMARY KEY (kind, what)
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_divergences_to_look_at ON millrace_divergences (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX millrace_divergences_by_state ON millrace_divergences (state, first_at, what);
CREATE INDEX millrace_divergences_by_tenant ON millrace_divergences (tenant_id, state, first_at, what);

CREATE TABLE millrace_failed_deliveries (
  -- The empty string for a message that belongs to no tenant.
  tenant_id       TEXT    NOT NULL,
  -- The id that the dead letter will have if the message becomes a dead letter.
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

CREATE TABLE millrace_fences (
  tenant_id TEXT    NOT NULL,
  name      TEXT    NOT NULL,
  token     INTEGER NOT NULL,
  at        INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_inbox (
  instance_id  TEXT    NOT NULL,
  step         TEXT    NOT NULL,
  item         TEXT    NOT NULL DEFAULT '',
  generation   INTEGER NOT NULL DEFAULT 1 CHECK (generation >= 1),
  position     INTEGER NOT NULL,
  class        TEXT    NOT NULL CHECK (class IN ('commit', 'keyed', 'lookup', 'natural', 'once')),
  -- A write with an outdated fencing token sets the state to NULL. This violates NOT NULL and aborts the whole batch of the write.
  state        TEXT    NOT NULL CHECK (state IN ('claimed', 'failed', 'in_doubt', 'confirmed', 'done', 'superseded')),
  epoch        INTEGER NOT NULL CHECK (epoch >= 1),
  token        TEXT    NOT NULL,
  repeats      INTEGER NOT NULL DEFAULT 0 CHECK (repeats IN (0, 1)),
  lease_until  INTEGER,
  input        TEXT,
  output       TEXT,
  output_ref   TEXT,
  messages     TEXT    CHECK (messages IS NULL OR json_valid(messages)),
  error        TEXT    CHECK (error IS NULL OR json_valid(error)),
  updated_at   INTEGER NOT NULL,
  undoable     INTEGER NOT NULL DEFAULT 0 CHECK (undoable IN (0, 1)),
  after        TEXT    CHECK (after IS NULL OR json_valid(after)),
  caught       TEXT    CHECK (caught IS NULL OR json_valid(caught)),
  began_at     INTEGER,
  ended_at     INTEGER,
  skipped_over TEXT    CHECK (skipped_over IS NULL OR json_valid(skipped_over)),
  PRIMARY KEY (instance_id, step, item, generation)
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_inbox_in_doubt ON millrace_inbox (updated_at) WHERE state = 'in_doubt';

CREATE TABLE millrace_instances (
  id              TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 32),
  tenant_id       TEXT    NOT NULL,
  workflow        TEXT    NOT NULL,
  message_type    TEXT    NOT NULL,
  idempotency_key TEXT    NOT NULL,
  correlation_id  TEXT    NOT NULL,
  causation_id    TEXT    NOT NULL,
  subject         TEXT    NOT NULL,
  fingerprint     TEXT    NOT NULL,
  envelope        TEXT    NOT NULL CHECK (json_valid(envelope)),
  queue           TEXT,
  status          TEXT    NOT NULL CHECK (status IN
    ('accepted', 'queued', 'running', 'waiting', 'paused', 'in_doubt', 'complete', 'errored', 'terminated', 'dead', 'skipped')),
  deliveries      INTEGER NOT NULL DEFAULT 0 CHECK (deliveries >= 0),
  error           TEXT    CHECK (error IS NULL OR json_valid(error)),
  accepted_at     INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  check_at        INTEGER,
  undo            TEXT,
  run             INTEGER NOT NULL DEFAULT 1 CHECK (run >= 1),
  seen            INTEGER NOT NULL DEFAULT 0 CHECK (seen IN (0, 1)),
  caught          TEXT,
  spent           TEXT,
  must_end_by     INTEGER,
  callback        TEXT,
  cause           TEXT,
  broken_off      TEXT    CHECK (broken_off IS NULL OR json_valid(broken_off)),
  due_at          INTEGER,
  -- The version of the workflow: before the start the version that would run, from the start on the version that runs.
  version         INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
  lost            TEXT,
  undone          INTEGER NOT NULL DEFAULT 0 CHECK (undone IN (0, 1)),
  -- The id of the pause because of which the instance does not start.
  held_by         TEXT,
  -- The last progress report of each step, by the name of the step: label, attempt, share, done, of, text, time.
  progress        TEXT    CHECK (progress IS NULL OR json_valid(progress)),
  -- The instance whose step started this instance as a child, and the label of that step. NULL for any other instance.
  parent          TEXT    CHECK (parent IS NULL OR length(parent) = 32),
  parent_step     TEXT    CHECK ((parent_step IS NULL) = (parent IS NULL)),
  -- The result of a complete child as JSON: the result, or its place in R2.
  result          TEXT    CHECK (result IS NULL OR json_valid(result)),
  -- A digest of the key of the slots. NULL if the workflow has no limit.
  slot            TEXT,
  -- The place of an instance that waits for a slot: the time of its acceptance or its due time, or an earlier time if an operator moved it.
  -- NULL for an instance that has got a slot or needs none.
  slot_turn       INTEGER CHECK (slot_turn IS NULL OR slot IS NOT NULL),
  -- The digests of the keys and the limits of concurrency, debounce or throttle at the acceptance, as JSON.
  flow            TEXT    CHECK (flow IS NULL OR json_valid(flow))
) STRICT;
CREATE INDEX millrace_instances_by_parent ON millrace_instances (tenant_id, parent, accepted_at, id) WHERE parent IS NOT NULL;
CREATE INDEX millrace_instances_by_time ON millrace_instances (tenant_id, accepted_at, id);
CREATE INDEX millrace_instances_by_payload ON millrace_instances (envelope->>'payload_ref') WHERE envelope->>'payload_ref' IS NOT NULL;
-- Instances without a recorded start are ordered by tenant, all others by time alone.
CREATE INDEX millrace_instances_to_check ON millrace_instances (seen, iif(seen, '', tenant_id), check_at) WHERE check_at IS NOT NULL;
CREATE INDEX millrace_instances_stopped ON millrace_instances (tenant_id, status, accepted_at, id)
  WHERE status IN ('errored', 'terminated', 'dead', 'skipped', 'in_doubt', 'paused');
CREATE INDEX millrace_instances_by_correlation ON millrace_instances (tenant_id, correlation_id, accepted_at, id);
CREATE INDEX millrace_instances_errored ON millrace_instances (updated_at) WHERE status = 'errored';
CREATE INDEX millrace_instances_by_deadline ON millrace_instances (tenant_id, must_end_by, id, workflow)
  WHERE must_end_by IS NOT NULL AND undo IS NULL AND status NOT IN ('complete', 'errored', 'terminated', 'dead', 'skipped');
CREATE INDEX millrace_instances_to_call ON millrace_instances (updated_at)
  WHERE callback <> run || ':' || status AND status IN ('complete', 'errored', 'terminated', 'dead', 'skipped');
CREATE INDEX millrace_instances_delayed ON millrace_instances (tenant_id, due_at, id) WHERE status = 'accepted' AND due_at IS NOT NULL;
CREATE INDEX millrace_instances_held ON millrace_instances (held_by, accepted_at) WHERE held_by IS NOT NULL;
CREATE INDEX millrace_instances_by_cause ON millrace_instances (tenant_id, cause, accepted_at, id) WHERE status = 'errored';
CREATE TRIGGER millrace_instance_born_errored AFTER INSERT ON millrace_instances WHEN NEW.status = 'errored' AND NEW.cause IS NOT NULL BEGIN INSERT INTO millrace_causes (tenant_id, kind, id, place, message_type, step, code, count, first_at, last_at) VALUES (NEW.tenant_id, 'instance', NEW.cause, NEW.workflow, NEW.message_type, iif(NEW.error->>'step' LIKE '% [%]', substr(NEW.error->>'step', 1, instr(NEW.error->>'step', ' [') - 1), NEW.error->>'step'), coalesce(NEW.error->>'code', 'unknown'), 1, NEW.updated_at, NEW.updated_at) ON CONFLICT (tenant_id, kind, id) DO UPDATE SET count = count + 1, first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at); END;
CREATE TRIGGER millrace_instance_left_errored AFTER UPDATE OF status, cause ON millrace_instances WHEN OLD.status = 'errored' AND OLD.cause IS NOT NULL AND (NEW.status <> 'errored' OR NEW.cause IS NOT OLD.cause) BEGIN DELETE FROM millrace_causes WHERE tenant_id = OLD.tenant_id AND kind = 'instance' AND id = OLD.cause AND count <= 1; UPDATE millrace_causes SET count = count - 1 WHERE tenant_id = OLD.tenant_id AND kind = 'instance' AND id = OLD.cause; END;
CREATE TRIGGER millrace_instance_errored AFTER UPDATE OF status, cause ON millrace_instances WHEN NEW.status = 'errored' AND NEW.cause IS NOT NULL AND (OLD.status <> 'errored' OR NEW.cause IS NOT OLD.cause) BEGIN INSERT INTO millrace_causes (tenant_id, kind, id, place, message_type, step, code, count, first_at, last_at) VALUES (NEW.tenant_id, 'instance', NEW.cause, NEW.workflow, NEW.message_type, iif(NEW.error->>'step' LIKE '% [%]', substr(NEW.error->>'step', 1, instr(NEW.error->>'step', ' [') - 1), NEW.error->>'step'), coalesce(NEW.error->>'code', 'unknown'), 1, NEW.updated_at, NEW.updated_at) ON CONFLICT (tenant_id, kind, id) DO UPDATE SET count = count + 1, first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at); END;
CREATE TRIGGER millrace_instance_removed AFTER DELETE ON millrace_instances WHEN OLD.status = 'errored' AND OLD.cause IS NOT NULL BEGIN DELETE FROM millrace_causes WHERE tenant_id = OLD.tenant_id AND kind = 'instance' AND id = OLD.cause AND count <= 1; UPDATE millrace_causes SET count = count - 1 WHERE tenant_id = OLD.tenant_id AND kind = 'instance' AND id = OLD.cause; END;
-- Each end of a child becomes an event for the wait of its parent, in the write that records the end, whichever statement records the end.
CREATE TRIGGER millrace_child_ended AFTER UPDATE OF status ON millrace_instances WHEN NEW.parent IS NOT NULL AND NEW.status IN ('complete', 'errored', 'terminated', 'dead', 'skipped') AND (NEW.status <> OLD.status OR NEW.run <> OLD.run) BEGIN INSERT INTO millrace_signals (id, tenant_id, type, subject, envelope, received_at) VALUES (NEW.id || '-' || NEW.run || '-' || NEW.status, NEW.tenant_id, 'millrace/child', NEW.id, json_object('child', NEW.id, 'run', NEW.run, 'status', NEW.status, 'error', json(NEW.error), 'result', json(iif(NEW.status = 'complete', NEW.result, NULL))), CAST(unixepoch('subsec') * 1000 AS INTEGER)) ON CONFLICT (id) DO NOTHING; UPDATE millrace_waits SET signal_id = NEW.id || '-' || NEW.run || '-' || NEW.status, told_at = NULL WHERE instance_id = NEW.parent AND name = NEW.parent_step AND subject = NEW.id; UPDATE millrace_instances SET check_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) + 10000 WHERE id = NEW.parent AND check_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) + 10000; END;
-- An instance with a slot key waits until its slot_turn is NULL. Each end, and each write of the flow of an instance, gives the free slots of
-- the key to its first waiting instances, in the same write. The limit of the first one says how many slots are free.
CREATE INDEX millrace_instances_in_turn ON millrace_instances (slot, slot_turn) WHERE slot_turn IS NOT NULL AND status IN ('accepted', 'queued');
CREATE INDEX millrace_instances_in_slot ON millrace_instances (slot)
  WHERE slot IS NOT NULL AND slot_turn IS NULL AND status NOT IN ('complete', 'errored', 'terminated', 'dead', 'skipped');
-- A throttled instance starts one period after the start that lies the limit before it. A debounced instance starts after its period, and
-- replaces the waiting instance of its key. The acceptance writes the flow after the insert, so that a plain insert compiles no trigger.
CREATE INDEX millrace_instances_throttled ON millrace_instances (flow->>'throttle', due_at) WHERE flow->>'throttle' IS NOT NULL AND due_at IS NOT NULL;
CREATE INDEX millrace_instances_debounced ON millrace_instances (flow->>'debounce') WHERE flow->>'debounce' IS NOT NULL AND status = 'accepted';
CREATE TRIGGER millrace_flow_asked AFTER UPDATE OF flow ON millrace_instances WHEN NEW.flow IS NOT NULL BEGIN UPDATE millrace_instances SET due_at = max(CAST(unixepoch('subsec') * 1000 AS INTEGER), coalesce((SELECT t.due_at + (NEW.flow->>'ms') FROM millrace_instances t WHERE t.flow->>'throttle' = NEW.flow->>'throttle' AND t.due_at IS NOT NULL ORDER BY t.due_at DESC LIMIT 1 OFFSET (NEW.flow->>'starts') - 1), 0)) WHERE id = NEW.id AND NEW.due_at IS NULL AND NEW.flow->>'throttle' IS NOT NULL; UPDATE millrace_instances SET status = 'skipped', updated_at = CAST(unixepoch('subsec') * 1000 AS INTEGER), check_at = NULL, error = json_object('step', '', 'code', 'replaced', 'message', 'A later command of the same key replaced it: ' || NEW.id || '.', 'attempts', 0) WHERE flow->>'debounce' = NEW.flow->>'debounce' AND status = 'accepted' AND due_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) AND undo IS NULL AND id <> NEW.id AND NEW.due_at IS NULL; UPDATE millrace_instances SET due_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) + (NEW.flow->>'ms') WHERE id = NEW.id AND NEW.due_at IS NULL AND NEW.flow->>'debounce' IS NOT NULL; UPDATE millrace_instances SET status = 'accepted', check_at = due_at, slot_turn = iif(slot IS NULL, NULL, due_at), must_end_by = iif(parent IS NULL AND envelope->>'must_end_by' IS NULL, must_end_by + due_at - CAST(unixepoch('subsec') * 1000 AS INTEGER), must_end_by) WHERE id = NEW.id AND NEW.due_at IS NULL AND coalesce(NEW.flow->>'debounce', NEW.flow->>'throttle') IS NOT NULL AND due_at > CAST(unixepoch('subsec') * 1000 AS INTEGER); UPDATE millrace_instances SET slot_turn = NULL, updated_at = CAST(unixepoch('subsec') * 1000 AS INTEGER), check_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) + 10000 WHERE id IN (SELECT w.id FROM millrace_instances w WHERE w.slot = NEW.slot AND w.slot_turn IS NOT NULL AND w.status IN ('accepted', 'queued') AND w.slot_turn <= CAST(unixepoch('subsec') * 1000 AS INTEGER) ORDER BY w.slot_turn, w.rowid LIMIT coalesce((SELECT max(0, (f.flow->>'limit') - (SELECT count(*) FROM millrace_instances h WHERE h.slot = NEW.slot AND h.slot_turn IS NULL AND h.status NOT IN ('complete', 'errored', 'terminated', 'dead', 'skipped'))) FROM millrace_instances f WHERE f.slot = NEW.slot AND f.slot_turn IS NOT NULL AND f.status IN ('accepted', 'queued') AND f.slot_turn <= CAST(unixepoch('subsec') * 1000 AS INTEGER) ORDER BY f.slot_turn, f.rowid LIMIT 1), 0)) AND flow->>'limit' >= (SELECT f.flow->>'limit' FROM millrace_instances f WHERE f.slot = NEW.slot AND f.slot_turn IS NOT NULL AND f.status IN ('accepted', 'queued') AND f.slot_turn <= CAST(unixepoch('subsec') * 1000 AS INTEGER) ORDER BY f.slot_turn, f.rowid LIMIT 1); END;
CREATE TRIGGER millrace_slot_freed AFTER UPDATE OF status ON millrace_instances WHEN NEW.slot IS NOT NULL AND NEW.status NOT IN ('running', 'waiting', 'paused', 'in_doubt') BEGIN UPDATE millrace_instances SET slot_turn = NULL, updated_at = CAST(unixepoch('subsec') * 1000 AS INTEGER), check_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) + 10000 WHERE id IN (SELECT w.id FROM millrace_instances w WHERE w.slot = NEW.slot AND w.slot_turn IS NOT NULL AND w.status IN ('accepted', 'queued') AND w.slot_turn <= CAST(unixepoch('subsec') * 1000 AS INTEGER) ORDER BY w.slot_turn, w.rowid LIMIT coalesce((SELECT max(0, (f.flow->>'limit') - (SELECT count(*) FROM millrace_instances h WHERE h.slot = NEW.slot AND h.slot_turn IS NULL AND h.status NOT IN ('complete', 'errored', 'terminated', 'dead', 'skipped'))) FROM millrace_instances f WHERE f.slot = NEW.slot AND f.slot_turn IS NOT NULL AND f.status IN ('accepted', 'queued') AND f.slot_turn <= CAST(unixepoch('subsec') * 1000 AS INTEGER) ORDER BY f.slot_turn, f.rowid LIMIT 1), 0)) AND flow->>'limit' >= (SELECT f.flow->>'limit' FROM millrace_instances f WHERE f.slot = NEW.slot AND f.slot_turn IS NOT NULL AND f.status IN ('accepted', 'queued') AND f.slot_turn <= CAST(unixepoch('subsec') * 1000 AS INTEGER) ORDER BY f.slot_turn, f.rowid LIMIT 1); END;
-- A run that an operator starts, or that is found on the platform, occupies a slot although it had none.
CREATE TRIGGER millrace_slot_taken AFTER UPDATE OF status ON millrace_instances WHEN NEW.slot_turn IS NOT NULL AND NEW.undo IS NULL AND NEW.status IN ('running', 'waiting', 'in_doubt') BEGIN UPDATE millrace_instances SET slot_turn = NULL WHERE id = NEW.id; END;
CREATE INDEX millrace_instances_errored_by_workflow ON millrace_instances (workflow, updated_at) WHERE status = 'errored';

CREATE TABLE millrace_lanes (
  tenant_id TEXT    NOT NULL,
  lane      TEXT    NOT NULL,
  key       TEXT    NOT NULL,
  state     TEXT    NOT NULL CHECK (state IN ('moving', 'waiting', 'retrying', 'delayed', 'paused', 'held', 'unknown')),
  why       TEXT,
  depth     INTEGER NOT NULL,
  oldest_at INTEGER,
  -- The first message of the lane as JSON, without the payload. NULL if the lane is empty. An empty lane has a row only while an operator
  -- has paused the lane.
  head      TEXT,
  -- The ids of the instances for which the lane waits, as JSON.
  ahead     TEXT    NOT NULL,
  recorded_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, lane, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_limits (
  tenant_id TEXT    NOT NULL,
  name      TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_locks (
  tenant_id TEXT    NOT NULL,
  name      TEXT    NOT NULL,
  token     INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;

-- Tenants that have left the cell of this database, each with its new cell, and tenants that are moving into this cell.
CREATE TABLE millrace_moved (
  tenant_id TEXT    NOT NULL PRIMARY KEY,
  cell      INTEGER NOT NULL CHECK (cell >= 1),
  -- When the move began that writes the rows of the tenant into this database. NULL for a tenant that has left.
  filled_by INTEGER
) STRICT, WITHOUT ROWID;
CREATE TRIGGER millrace_instance_of_moved BEFORE INSERT ON millrace_instances WHEN EXISTS (SELECT 1 FROM millrace_moved WHERE tenant_id = NEW.tenant_id AND filled_by IS NULL) BEGIN SELECT RAISE(ABORT, 'The tenant lives in another cell.'); END;
-- Refuses a version of the Worker that knows only one cell.
CREATE TRIGGER millrace_instance_of_other BEFORE INSERT ON millrace_instances WHEN EXISTS (SELECT 1 FROM millrace_cells WHERE tenant_id = NEW.tenant_id AND cell > 1) AND NOT EXISTS (SELECT 1 FROM millrace_moved WHERE tenant_id = NEW.tenant_id AND filled_by IS NOT NULL) BEGIN SELECT RAISE(ABORT, 'The tenant lives in another cell.'); END;

CREATE TABLE millrace_outbox (
  id       TEXT    NOT NULL PRIMARY KEY,
  queue    TEXT    NOT NULL,
  body     TEXT    NOT NULL,
  delay_s  INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  error    TEXT,
  due_at   INTEGER NOT NULL,
  sent_at  INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_outbox_due ON millrace_outbox (due_at);
CREATE INDEX millrace_outbox_refused ON millrace_outbox (attempts) WHERE error IS NOT NULL;
CREATE INDEX millrace_outbox_by_payload ON millrace_outbox (id) WHERE instr(body, 'r2://') > 0;

CREATE TABLE millrace_pauses (
  -- Three parts with slashes between them: the word workflow or queue, its name, and the tenant. A pause for all tenants ends with the
  -- slash.
  id         TEXT    NOT NULL PRIMARY KEY CHECK (id GLOB '*/*/' || tenant_id),
  -- The empty string if the pause applies to all tenants.
  tenant_id  TEXT    NOT NULL,
  actor      TEXT    NOT NULL,
  reason     TEXT    NOT NULL,
  since      INTEGER NOT NULL,
  -- The cause of the failures, if the circuit breaker paused the workflow.
  cause      TEXT,
  -- NULL while the workflow or queue is paused.
  resumed_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_pauses_resumed ON millrace_pauses (resumed_at) WHERE resumed_at IS NOT NULL;
CREATE INDEX millrace_pauses_by_breaker ON millrace_pauses (since) WHERE cause IS NOT NULL AND resumed_at IS NULL;

CREATE TABLE millrace_schedule_runs (
  tenant_id   TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  due_at      INTEGER NOT NULL,
  state       TEXT    NOT NULL CHECK (state IN ('started', 'manual', 'refused', 'missed', 'paused')),
  until_at    INTEGER NOT NULL,
  times       INTEGER NOT NULL CHECK (times >= 1),
  instance_id TEXT,
  reason      TEXT,
  recorded_at INTEGER NOT NULL,
  occasion    TEXT    CHECK (occasion IS NULL OR state = 'manual'),
  PRIMARY KEY (tenant_id, name, due_at, state),
  CHECK ((state IN ('started', 'manual')) = (instance_id IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX millrace_schedule_runs_by_occasion ON millrace_schedule_runs (tenant_id, name, occasion) WHERE occasion IS NOT NULL;

CREATE TABLE millrace_schedules (
  tenant_id  TEXT    NOT NULL,
  name       TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 80),
  cron       TEXT    NOT NULL,
  time_zone  TEXT    NOT NULL,
  command    TEXT    NOT NULL,
  -- The version of the command that describes the payload. A later version upcasts the payload.
  schema_version INTEGER NOT NULL DEFAULT 1 CHECK (schema_version >= 1),
  payload    TEXT    NOT NULL CHECK (json_valid(payload)),
  -- A run that would start later than this after its time is skipped and recorded as missed.
  late_ms    INTEGER NOT NULL CHECK (late_ms >= 0),
  state      TEXT    NOT NULL CHECK (state IN ('active', 'paused')),
  next_at    INTEGER,
  -- Each change increments the revision, so that a run of an older revision does not change the row of a newer revision.
  revision   INTEGER NOT NULL DEFAULT 1 CHECK (revision >= 1),
  changed_at INTEGER NOT NULL,
  changed_by TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, name),
  CHECK (state = 'active' OR next_at IS NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_schedules_due ON millrace_schedules (next_at) WHERE next_at IS NOT NULL;

CREATE TABLE millrace_sequences (
  id       BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  -- The number of the last message plus one, because the number of the first message may be 0.
  last     INTEGER NOT NULL CHECK (last > before),
  -- The value of last that the writer had read. If last has changed since, the write sets last to NULL and is therefore refused.
  before   INTEGER NOT NULL CHECK (before >= 0),
  -- The newest hundred numbers that were skipped, as a JSON list. A late message with such a number is not a duplicate.
  missing  TEXT    NOT NULL DEFAULT '[]',
  moved_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_sign_in_codes (
  hash       TEXT    NOT NULL PRIMARY KEY CHECK (length(hash) = 64),
  tenant_id  TEXT    NOT NULL,
  token_id   TEXT    NOT NULL,
  reason     TEXT    NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
  expires_at INTEGER NOT NULL,
  -- The token that was issued for this code. NULL until the code is used.
  used_by    TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_sign_in_codes_by_tenant ON millrace_sign_in_codes (tenant_id, expires_at);

CREATE TABLE millrace_signals (
  id          TEXT    NOT NULL PRIMARY KEY,
  tenant_id   TEXT    NOT NULL,
  type        TEXT    NOT NULL,
  subject     TEXT    NOT NULL,
  envelope    TEXT    NOT NULL CHECK (json_valid(envelope)),
  received_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_signals_by_subject ON millrace_signals (tenant_id, type, subject, received_at);
CREATE INDEX millrace_signals_by_payload ON millrace_signals (envelope->>'payload_ref') WHERE envelope->>'payload_ref' IS NOT NULL;

CREATE TABLE millrace_stated_events (
  id             BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  fingerprint    BLOB    NOT NULL CHECK (length(fingerprint) = 32),
  said           BLOB    NOT NULL CHECK (length(said) = 16),
  -- NULL if the event started a job, because the correlation id is then the id of the event.
  correlation_id TEXT,
  stated_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_tags (
  tenant_id   TEXT    NOT NULL,
  tag         TEXT    NOT NULL,
  accepted_at INTEGER NOT NULL,
  instance_id TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, tag, accepted_at, instance_id)
) STRICT, WITHOUT ROWID;
-- The message of an instance contains the tags of the instance. These triggers update the table when the tags change.
CREATE TRIGGER millrace_instance_tagged AFTER INSERT ON millrace_instances WHEN NEW.envelope->'tags' IS NOT NULL BEGIN INSERT INTO millrace_tags (tenant_id, tag, accepted_at, instance_id) SELECT DISTINCT NEW.tenant_id, value, NEW.accepted_at, NEW.id FROM json_each(NEW.envelope, '$.tags'); END;
CREATE TRIGGER millrace_instance_retagged AFTER UPDATE OF envelope, accepted_at ON millrace_instances WHEN OLD.envelope->'tags' IS NOT NEW.envelope->'tags' OR (OLD.accepted_at <> NEW.accepted_at AND OLD.envelope->'tags' IS NOT NULL) BEGIN DELETE FROM millrace_tags WHERE tenant_id = OLD.tenant_id AND tag IN (SELECT value FROM json_each(OLD.envelope, '$.tags')) AND accepted_at = OLD.accepted_at AND instance_id = OLD.id AND (OLD.accepted_at <> NEW.accepted_at OR tag NOT IN (SELECT value FROM json_each(NEW.envelope, '$.tags'))); INSERT OR IGNORE INTO millrace_tags (tenant_id, tag, accepted_at, instance_id) SELECT DISTINCT NEW.tenant_id, value, NEW.accepted_at, NEW.id FROM json_each(NEW.envelope, '$.tags'); END;
CREATE TRIGGER millrace_instance_untagged AFTER DELETE ON millrace_instances WHEN OLD.envelope->'tags' IS NOT NULL BEGIN DELETE FROM millrace_tags WHERE tenant_id = OLD.tenant_id AND tag IN (SELECT value FROM json_each(OLD.envelope, '$.tags')) AND accepted_at = OLD.accepted_at AND instance_id = OLD.id; END;

CREATE TABLE millrace_tallies (
  id   TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 36),
  at   INTEGER NOT NULL CHECK (at > 0),
  body TEXT    NOT NULL CHECK (json_valid(body))
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_tenant_objects (
  tenant_id TEXT    NOT NULL,
  -- The name of the binding for the class of the Durable Object. ARCHIVE: the keeper is moving instances into the R2 object of this number.
  binding   TEXT    NOT NULL CHECK (binding IN ('ROOMS', 'PULL_QUEUES', 'ARCHIVE')),
  name      TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, binding, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_tokens (
  id         TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  hash       TEXT    NOT NULL CHECK (length(hash) = 64),
  tenant_id  TEXT    NOT NULL CONSTRAINT tenant_is_a_name CHECK
    (length(tenant_id) BETWEEN 1 AND 64 AND tenant_id NOT GLOB '*[^a-z0-9_-]*' AND tenant_id GLOB '[a-z0-9]*'),
  actor      TEXT    NOT NULL CONSTRAINT actor_is_named CHECK (length(actor) BETWEEN 1 AND 100),
  scopes     TEXT    NOT NULL CONSTRAINT scopes_are_words CHECK
    (scopes GLOB '[a-z]*' AND scopes NOT GLOB '*[^a-z0-9_:. -]*' AND scopes NOT GLOB '* [^a-z]*' AND scopes NOT GLOB '* '),
  created_at INTEGER NOT NULL,
  -- NULL if the token never expires. Only a local engine creates such a token.
  expires_at INTEGER,
  minted_by  TEXT,
  used_at    INTEGER,
  signed_in  INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_tokens_by_tenant ON millrace_tokens (tenant_id, created_at, id);

CREATE TABLE millrace_tombstones (
  id          BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  -- The first six bytes of the fingerprint.
  fingerprint BLOB    NOT NULL CHECK (length(fingerprint) <= 6),
  -- When the instance was removed, in milliseconds since 1970. Negative if the object of this number in R2 contains the instance.
  place       INTEGER NOT NULL CHECK (place <> 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_waits (
  instance_id TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  workflow    TEXT    NOT NULL,
  tenant_id   TEXT    NOT NULL,
  type        TEXT    NOT NULL,
  subject     TEXT    NOT NULL,
  event_type  TEXT    NOT NULL,
  signal_id   TEXT,
  since_at    INTEGER NOT NULL,
  over_at     INTEGER CHECK (over_at IS NULL OR signal_id IS NULL),
  told_at     INTEGER,
  asked_at    INTEGER,
  due_at      INTEGER,
  PRIMARY KEY (instance_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_waits_by_signal ON millrace_waits (signal_id) WHERE signal_id IS NOT NULL;
CREATE INDEX millrace_waits_open ON millrace_waits (tenant_id, type, subject) WHERE signal_id IS NULL AND over_at IS NULL;

INSERT INTO millrace_counts (span, at, body) VALUES ('ever', 0, '{}');
