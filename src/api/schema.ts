/**
 * The app's migrations. Each entry names the last table, index or column that the migration creates, for `/healthz`. The engine has its own
 * list of migrations.
 */
export const schema = {
  "0001_app": "webhook_endpoints",
  "0002_targets": "article_pages_by_site",
  "0003_articles": "research_by_keyword",
  "0005_webhook_sent_at": "webhook_deliveries.sent_at",
  "0006_batch_parent": "batches.parent_id",
  "0007_object_sizes": "object_sizes",
  "0008_research_by_time": "research_by_time",
};
