-- The template and the instructions of a brand for its articles. NULL: the default template, no instructions.
ALTER TABLE brands ADD COLUMN template TEXT;
ALTER TABLE brands ADD COLUMN instructions TEXT CHECK (length(instructions) <= 2000);

-- The template and the research of an article, its key points, and its words. Articles from before this migration have no words.
ALTER TABLE articles ADD COLUMN template TEXT;
ALTER TABLE articles ADD COLUMN research_id TEXT;
ALTER TABLE articles ADD COLUMN key_points TEXT NOT NULL DEFAULT '[]';
ALTER TABLE articles ADD COLUMN word_count INTEGER CHECK (word_count >= 0);
-- Counts the edits of the text. A publication with an older text is not recorded.
ALTER TABLE articles ADD COLUMN edits INTEGER NOT NULL DEFAULT 0;

-- The synthesis of the sources by a model, and its cost. NULL and empty for older research.
ALTER TABLE research ADD COLUMN title TEXT;
ALTER TABLE research ADD COLUMN summary TEXT;
ALTER TABLE research ADD COLUMN key_points TEXT NOT NULL DEFAULT '[]';
ALTER TABLE research ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
ALTER TABLE research ADD COLUMN prompt TEXT;
ALTER TABLE research ADD COLUMN model TEXT;
ALTER TABLE research ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE research ADD COLUMN output_tokens INTEGER NOT NULL DEFAULT 0;
CREATE INDEX research_by_keyword ON research (tenant_id, brand, keyword COLLATE NOCASE, researched_at);
