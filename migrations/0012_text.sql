-- What an article says in a sentence or two, and the prompt it was written from. Articles from before have neither.
ALTER TABLE articles ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE articles ADD COLUMN prompt TEXT;

-- Every answer of a model that was paid for, once, also the ones that could not be used: written with the outcome of the step that asked.
-- Tokens are null where the provider did not say them.
CREATE TABLE text_calls (
  tenant_id        TEXT    NOT NULL,
  content_id       TEXT    NOT NULL,
  attempt          INTEGER NOT NULL CHECK (attempt >= 1),
  brand            TEXT    NOT NULL,
  prompt           TEXT    NOT NULL,
  model            TEXT    NOT NULL,
  answer_id        TEXT,
  max_tokens       INTEGER NOT NULL CHECK (max_tokens >= 1),
  input_tokens     INTEGER CHECK (input_tokens >= 0),
  output_tokens    INTEGER CHECK (output_tokens >= 0),
  cached_tokens    INTEGER CHECK (cached_tokens >= 0),
  reasoning_tokens INTEGER CHECK (reasoning_tokens >= 0),
  finish           TEXT,
  outcome          TEXT    NOT NULL CHECK (outcome IN ('written', 'truncated', 'refused', 'empty', 'malformed')),
  paid_at          INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, content_id, attempt)
) STRICT, WITHOUT ROWID;

-- What was used between two days. One more row written for each answer: nothing beside what the answer costs.
CREATE INDEX text_calls_by_time ON text_calls (tenant_id, paid_at);
