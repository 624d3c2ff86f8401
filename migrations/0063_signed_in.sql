-- The token of a browser, by a sign-in code: it counts by itself, and goes as soon as it has expired.
ALTER TABLE tokens ADD COLUMN signed_in INTEGER NOT NULL DEFAULT 0;
