-- What is on its way to the CRM. A row is there from before a push writes anything there until its outcome is written here.
CREATE TABLE crm_sends (
  tenant_id TEXT    NOT NULL,
  -- The instance and the step that push: a repeat of the step finds its own row.
  send_id   TEXT    NOT NULL,
  -- Until when nobody else may push any of its contacts. Behind that its holder is taken for dead, and what it sent may have arrived.
  until     INTEGER NOT NULL,
  -- [{id, version, sent: [{property: value}]}]: the contacts, the version that their links were read in, and what each attempt sends of them.
  contacts  TEXT    NOT NULL CHECK (json_type(contacts) = 'array'),
  PRIMARY KEY (tenant_id, send_id),
  -- A write that came too late provokes this, so that its step looks again.
  CONSTRAINT contact_changed_meanwhile CHECK (send_id <> '')
) STRICT, WITHOUT ROWID;

-- What a push that died may have written there: [{property: value}]. A value among them is ours and no change of a person.
ALTER TABLE crm_links ADD COLUMN maybe TEXT NOT NULL DEFAULT '[]' CHECK (json_type(maybe) = 'array');
-- Counts the writes of what is known: who read an older one looks again.
ALTER TABLE crm_links ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
