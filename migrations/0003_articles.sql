-- The template and the instructions of a brand for its articles. NULL means the default template or no instructions.
ALTER TABLE brands ADD COLUMN template TEXT;
ALTER TABLE brands ADD COLUMN instructions TEXT CHECK (length(instructions) <= 2000);

-- The template, the research, the key points and the word count of an article. Articles that are older than this migration have no word
-- count.
ALTER TABLE articles ADD COLUMN template TEXT;
ALTER TABLE articles ADD COLUMN research_id TEXT;
ALTER TABLE articles ADD COLUMN key_points TEXT NOT NULL DEFAULT '[]';
ALTER TABLE articles ADD COLUMN word_count INTEGER CHECK (word_count >= 0);
-- The number of edits of the text. A publication of an earlier version of the text is not recorded.
ALTER TABLE articles ADD COLUMN edits INTEGER NOT NULL DEFAULT 0;

-- The synthesis of the sources that a model wrote, and the cost of the synthesis. Older research has NULL or an empty list.
ALTER TABLE research ADD COLUMN title TEXT;
ALTER TABLE research ADD COLUMN summary TEXT;
ALTER TABLE research ADD COLUMN key_points TEXT NOT NULL DEFAULT '[]';
ALTER TABLE research ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
ALTER TABLE research ADD COLUMN prompt TEXT;
ALTER TABLE research ADD COLUMN model TEXT;
ALTER TABLE research ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE research ADD COLUMN output_tokens INTEGER NOT NULL DEFAULT 0;
CREATE INDEX research_by_keyword ON research (tenant_id, brand, keyword COLLATE NOCASE, researched_at);
