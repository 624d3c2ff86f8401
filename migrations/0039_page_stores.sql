-- Which store has the page of an article while it is up: its kind and its address. Empty for a page that was put up before this was kept.
ALTER TABLE articles ADD COLUMN store TEXT;
