-- Which run of an instance its row tells of. An operator who retries or undoes it begins the next one, and what an earlier run says late is refused.
ALTER TABLE instances ADD COLUMN run INTEGER NOT NULL DEFAULT 1 CHECK (run >= 1);

-- 1 when the keeper has seen that the instance was started. What nobody has seen started comes first in its rounds, however much else is due.
ALTER TABLE instances ADD COLUMN seen INTEGER NOT NULL DEFAULT 0 CHECK (seen IN (0, 1));

-- When the keeper looks at a row next, in two lines: unseen ones, then the others. One entry per open instance, as before. It also lists what is open.
DROP INDEX instances_to_check;
CREATE INDEX instances_to_check ON instances (seen, check_at) WHERE check_at IS NOT NULL;

-- GET /v1/instances?status= of what stopped or waits for a person. An instance that runs through never enters it: no row more for those.
CREATE INDEX instances_stopped ON instances (tenant_id, status, accepted_at, id)
  WHERE status IN ('errored', 'terminated', 'dead', 'skipped', 'in_doubt', 'paused');

-- Each promise to an operator has a patience of its own: when it is tried next, how often it was, and what it failed of last.
ALTER TABLE actions ADD COLUMN due_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE actions ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0);
ALTER TABLE actions ADD COLUMN error TEXT;

-- Promises that are open: by when they are tried next, and by instance, which the keeper leaves alone until its promise is kept.
DROP INDEX actions_to_apply;
CREATE INDEX actions_to_apply ON actions (due_at) WHERE applied_at IS NULL;
CREATE INDEX actions_open ON actions (instance_id) WHERE applied_at IS NULL;

-- When an unconfirmed message is sent again: one entry per emitted message, gone with it. And those that no queue takes, for the keeper to give up.
CREATE INDEX outbox_due ON outbox (due_at);
CREATE INDEX outbox_refused ON outbox (attempts) WHERE error IS NOT NULL;
-- The few whose payload is in R2: asked before an old payload is removed.
CREATE INDEX outbox_by_payload ON outbox (id) WHERE instr(body, 'r2://') > 0;

-- Which waits took an event. One entry per event that a run waited for.
CREATE INDEX waits_by_signal ON waits (signal_id) WHERE signal_id IS NOT NULL;

-- GET /v1/instances?correlation= in its order, however large the job. The same number of entries as before.
DROP INDEX instances_by_correlation;
CREATE INDEX instances_by_correlation ON instances (tenant_id, correlation_id, accepted_at, id);

-- GET /v1/dead-letters of one tenant, among all others. One entry per letter.
CREATE INDEX dead_letters_by_tenant ON dead_letters (tenant_id, state, captured_at, id);

-- GET /v1/approvals?state=pending: the few that are open, not all that were ever asked.
CREATE INDEX approvals_pending ON approvals (tenant_id, asked_at, id) WHERE state = 'pending';
